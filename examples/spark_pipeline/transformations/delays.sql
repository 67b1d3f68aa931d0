-- From the streaming table, in SQL: a view that is made anew with each run.
CREATE MATERIALIZED VIEW delays AS
SELECT carrier, count(*) AS flights, avg(dep_delay) AS mean_delay FROM flights GROUP BY carrier;
