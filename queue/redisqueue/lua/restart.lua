-- Empties the line and raises its epoch.
--
-- KEYS  all keys of the line
-- Reply the new epoch
-- O(1); the memory is freed in the background
if redis.call('EXISTS', meta) == 0 then return NOT_OPEN end
local epoch = math.max(tonumber(redis.call('HGET', meta, 'epoch')) + 1, now_ms)
begin_epoch(epoch)
return epoch
