-- STREAM reads the topic as a stream: each run appends what came since the last one. A body that is no number is null, and stays out of the mean.
CREATE STREAMING TABLE flights AS
SELECT tags AS carrier, keys AS tailnum, try_cast(string(body) AS int) AS dep_delay, storeTimestamp FROM STREAM flights_topic;

-- From the streaming table: a view that is made anew with each run.
CREATE MATERIALIZED VIEW delays AS
SELECT carrier, count(*) AS flights, avg(dep_delay) AS mean_delay FROM flights GROUP BY carrier;
