-- The topic as a table of the catalog, made once. A pipeline's own files may not do that: Spark calls it an "Unsupported plan CreateTable".
-- Where the brokers are comes from NAMESRV_ADDR; to keep it with the table, add the option namesrvAddr.
CREATE TABLE IF NOT EXISTS flights_topic USING rocketmq
OPTIONS (topic 'flights', startingOffsets 'earliest', columns 'tags,keys,body,storeTimestamp');
