-- Puts a process's report in and returns the live ones. An entry is the time of
-- its report on this clock, in ms, a space, and the report.
--
-- KEYS  1 the register: HASH process → entry
-- ARGV  1 process, 2 its report, 3 the age from which an entry is not returned
--       (ms), 4 the age from which it is removed (ms)
-- Reply the entries that are younger than that, its own included, in no order
-- O(p) for p processes
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %s', now, ARGV[2]))
local live, all = {}, redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  -- An entry from the future was made before a fail-over to a slower clock: it
  -- must not live the longer for it. One without a time is of no version of ours.
  local at = tonumber(string.match(all[i + 1], '^%d+'))
  local age = at and math.abs(now - at) or math.huge
  if age < tonumber(ARGV[3]) then
    live[#live + 1] = all[i + 1]
  elseif age >= tonumber(ARGV[4]) then
    redis.call('HDEL', KEYS[1], all[i])
  end
end
return live
