-- Reads the line's figures and settings at one moment. A script, although it
-- changes nothing: on a cluster the store's time must come from the node that
-- holds the line, and TIME alone goes to any of them.
--
-- KEYS  all keys of the line
-- Reply {now (µs), waiting, inside, away, the meta hash, the cohorts}, both as
--       {field, value, field, value, …}; an empty meta if the line is not open
-- O(1)
return { now_us, redis.call('ZCARD', waiting), redis.call('ZCARD', inside), redis.call('ZCARD', away),
  redis.call('HGETALL', meta), redis.call('HGETALL', cohorts) }
