-- Fixes the hash of the set of early tickets, once.
--
-- KEYS  all keys of the line
-- ARGV  1 the seed of the draw   2 how many tickets were read   3 their hash
-- Reply 1 if it is fixed now, else 0
-- O(1)
local line = redis.call('HMGET', meta, 'revision', 'seed', 'tickets_sha256', 'opens_at', 'hold_until')
if not line[1] then return NOT_OPEN end
if line[2] ~= ARGV[1] or (line[3] or '') ~= '' then return 0 end
if (tonumber(line[4] or '') or 0) > now_ms or (tonumber(line[5] or '') or 0) > now_ms then return 0 end
-- Somebody came back while they were read: the next time.
if redis.call('HLEN', early) ~= tonumber(ARGV[2]) then return 0 end
redis.call('HSET', meta, 'tickets_sha256', ARGV[3], 'revision', int(math.max(tonumber(line[1]) + 1, now_ms)))
return 1
