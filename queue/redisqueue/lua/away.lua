-- Takes waiting subjects out of the order; a poll brings them back.
--
-- KEYS  all keys of the line
-- ARGV  subjects, at most 1000
-- Reply how many were taken out
-- O(k log n) for k subjects
if redis.call('EXISTS', meta) == 0 then return NOT_OPEN end
local taken = 0
for _, subject in ipairs(ARGV) do
  local place = redis.call('ZSCORE', waiting, subject)
  if place then
    redis.call('ZREM', waiting, subject)
    redis.call('ZADD', away, place, subject)
    taken = taken + 1
  end
end
return taken
