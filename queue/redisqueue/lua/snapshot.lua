-- Reads the line's figures and settings at one moment. A script, although it
-- changes nothing: on a cluster the store's time must come from the node that
-- holds the line, and TIME alone goes to any of them.
--
-- KEYS  all keys of the line
-- Reply {now (µs), waiting, inside, away, field, value, field, value, …} with
--       the fields of the meta hash; no fields if the line is not open
-- O(1)
local reply = redis.call('HGETALL', meta)
table.insert(reply, 1, redis.call('ZCARD', away))
table.insert(reply, 1, redis.call('ZCARD', inside))
table.insert(reply, 1, redis.call('ZCARD', waiting))
table.insert(reply, 1, now_us)
return reply
