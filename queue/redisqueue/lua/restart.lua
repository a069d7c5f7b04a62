-- Empties the line and raises its epoch, once for all who saw the same epoch: a
-- repetition must not throw out those who have entered since.
--
-- KEYS  all keys of the line
-- ARGV  1 the epoch that is to end
-- Reply the epoch now
-- O(1); the memory is freed in the background
if redis.call('EXISTS', meta) == 0 then return NOT_OPEN end
local epoch = tonumber(redis.call('HGET', meta, 'epoch'))
if epoch == tonumber(ARGV[1]) then
  epoch = math.max(epoch + 1, now_ms)
  begin_epoch(epoch)
end
return epoch
