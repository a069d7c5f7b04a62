-- Notes that holders of live admissions have come to order, each once.
--
-- KEYS  all keys of the line
-- ARGV  ticket ids, at most 50
-- Reply how many were not noted before
-- O(k) for k ids
if redis.call('EXISTS', meta) == 0 then return NOT_OPEN end
local fresh = 0
for _, id in ipairs(ARGV) do
  local admission = admission_of(id)
  if admission and count_arrival(admission) then
    redis.call('HSET', admitted, id, pack(admission))
    fresh = fresh + 1
  end
end
return fresh
