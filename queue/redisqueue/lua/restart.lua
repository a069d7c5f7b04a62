-- Empties the line and raises its epoch, once for all who saw the same epoch: a
-- repetition must not throw out those who have entered since. A line that is
-- still to open gets a new draw, any other loses the one it had. A hold ends: who
-- could come back is dead with their epoch.
--
-- KEYS  all keys of the line
-- ARGV  1 the epoch that is to end   2 a fresh seed
-- Reply the epoch now
-- O(1); the memory is freed in the background
local line = redis.call('HMGET', meta, 'epoch', 'revision', 'seed')
if not line[1] then return NOT_OPEN end
local epoch = tonumber(line[1])
if epoch == tonumber(ARGV[1]) then
  epoch = math.max(epoch + 1, now_ms)
  begin_epoch(epoch)
  redis.call('HDEL', meta, 'lost_at', 'hold_until')
  local drawn = ensure_seed(ARGV[2])
  if drawn or (line[3] or '') ~= '' then
    redis.call('HSET', meta, 'revision', int(math.max(tonumber(line[2]) + 1, now_ms)))
  end
end
return epoch
