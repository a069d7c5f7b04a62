-- Applies an operator's change.
--
-- KEYS  all keys of the line
-- ARGV  1 a fresh seed, for a first opening time   2 the opening time (ms), '' if
--       the change has none, then field, value, field, value, …
-- Reply the meta hash, as HGETALL; {'started'} if the opening time cannot be in
--       the future any more
-- O(1)
local line = redis.call('HMGET', meta, 'revision', 'started', 'opens_at', 'closes_at', 'paused', 'hold_until', 'mode')
if not line[1] then return NOT_OPEN end
local opens_at = tonumber(ARGV[2])
if opens_at and opens_at > now_ms then
  local ahead = (tonumber(line[3] or '') or 0) > now_ms
  if line[2] or not ahead and redis.call('HLEN', early) > 0 then return { 'started' } end
  -- An earlier seed is public since that draw opened: whoever knew it could enter
  -- until the place pleases.
  if not ahead then redis.call('HSET', meta, 'seed', '') end
end
-- A pause between two sweeps counts too: nobody has to speak while nothing moves.
if standing_still(line[5], line[3], line[4], line[6], line[7]) then
  redis.call('HSET', meta, 'listening', int(now_ms))
end
local revision = math.max(tonumber(line[1]) + 1, now_ms)
redis.call('HSET', meta, 'revision', int(revision), unpack(ARGV, 3))
ensure_seed(ARGV[1])
return redis.call('HGETALL', meta)
