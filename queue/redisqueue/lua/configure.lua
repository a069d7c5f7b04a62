-- Applies an operator's change.
--
-- KEYS  all keys of the line
-- ARGV  1 a fresh seed, for a first opening time   2 the opening time (ms), '' if
--       the change has none, then field, value, field, value, …
-- Reply the meta hash, as HGETALL; {'started'} if the opening time cannot be in
--       the future any more
-- O(1)
local line = redis.call('HMGET', meta, 'revision', 'started', 'seed', 'opens_at')
if not line[1] then return NOT_OPEN end
local opens_at = tonumber(ARGV[2])
if opens_at and opens_at > now_ms then
  -- A draw that has opened is over: its seed and its tickets are published.
  local drawn = line[3] ~= '' and (tonumber(line[4] or '') or 0) <= now_ms and redis.call('HLEN', early) > 0
  if line[2] or drawn then return { 'started' } end
end
local revision = math.max(tonumber(line[1]) + 1, now_ms)
redis.call('HSET', meta, 'revision', int(revision), unpack(ARGV, 3))
ensure_seed(ARGV[1])
return redis.call('HGETALL', meta)
