-- Records that admissions were used for an order.
--
-- KEYS  all keys of the line
-- ARGV  1 ticket's time to live (s), then subject, ticket id, subject, … of at
--       most 500 orders
-- Reply how many were not recorded before
-- O(k log n) for k orders
if redis.call('EXISTS', meta) == 0 then return NOT_OPEN end
local ticket_ttl, fresh = tonumber(ARGV[1]), 0
for i = 2, #ARGV, 2 do
  local subject, id = ARGV[i], ARGV[i + 1]
  local admission, over = admission_of(id), end_of(id)
  if admission then
    count_arrival(admission)
    end_admission(id, admission, 'spent', ticket_ttl)
    fresh = fresh + 1
  elseif not over or over.state ~= 'spent' then
    -- The admission ran out in this moment, its visitor left the line before they
    -- ordered, or the store was emptied since and they are back in line: the order
    -- stands in any case.
    local was = over or {}
    if redis.call('HGET', tickets, subject) == id then was.place = end_place(id, subject, 'spent', ticket_ttl) end
    if was.arrived ~= 1 then redis.call('HINCRBY', meta, 'arrived', 1) end
    was.arrived = 1
    remember_end(id, 'spent', ticket_ttl, was)
    redis.call('ZREM', inside, id)
    redis.call('HINCRBY', meta, 'spent', 1)
    fresh = fresh + 1
  end
end
return fresh
