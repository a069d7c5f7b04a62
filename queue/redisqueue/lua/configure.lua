-- Applies an operator's change.
--
-- KEYS  all keys of the line
-- ARGV  field, value, field, value, …
-- Reply the meta hash, as HGETALL
-- O(1)
if redis.call('EXISTS', meta) == 0 then return NOT_OPEN end
local revision = math.max(tonumber(redis.call('HGET', meta, 'revision')) + 1, now_ms)
redis.call('HSET', meta, 'revision', int(revision), unpack(ARGV))
return redis.call('HGETALL', meta)
