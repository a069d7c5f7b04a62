-- Opens the line, or puts back what Redis has forgotten of it: a later epoch, a
-- higher floor of places, settings of a higher revision. Never goes back.
--
-- KEYS  all keys of the line
-- ARGV  epoch (as the caller last knew it), floor (µs), revision,
--       then the settings as field, value, field, value, …
-- Reply 1 if the line was created, else 0
-- O(1)
local epoch, floor, revision = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local created = redis.call('EXISTS', meta) == 0
local have = redis.call('HMGET', meta, 'epoch', 'floor', 'revision')

if created or epoch > tonumber(have[1]) then begin_epoch(epoch) end
if created or floor > tonumber(have[2]) then redis.call('HSET', meta, 'floor', int(floor)) end
if created or revision > tonumber(have[3]) then
  redis.call('HSET', meta, 'revision', int(revision), unpack(ARGV, 4))
end
return created and 1 or 0
