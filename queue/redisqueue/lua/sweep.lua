-- Takes in who was heard, marks those near the head who have fallen silent, and
-- gives up the places of those away for too long.
--
-- KEYS  all keys of the line
-- ARGV  1 the longest interval that the caller told anybody (ms)   2 grace (ms)
--       3 how long an away place is kept once the head has passed it (ms)
--       4 ticket's time to live (s)   5 smallest and   6 largest zone
--       7 1 if more of the same round follows, else 0
--       8 1 if the caller was not answered since its last round, else 0: then polls may
--         have failed too, and nobody was heard
--       then, of each heard since the last round, at most 1000: what they were told
--       (ms), subject
-- Reply {zone, away, given up}
-- O(z log n) for a zone of z, once per half a second; else O(k log z) for k heard
local line = redis.call('HMGET', meta, 'epoch', 'told_ms', 'told_at', 'swept_at', 'marked_at', 'listening', 'passed',
  'rate', 'paused', 'opens_at', 'closes_at', 'hold_until', 'head', 'zone', 'mode')
if not line[1] then return NOT_OPEN end

-- After a fail-over to a slower clock: what was noted by the other one says nothing
-- until this one has caught up. Less than that passes by itself.
local UNSWEPT = 5000 -- ms; after that long without a sweep nobody has listened
if (tonumber(line[4]) or 0) - now_ms > UNSWEPT then
  redis.call('UNLINK', seen)
  for i = 3, 6 do line[i] = false end
end

-- How many are given up at most: a script stops all of Redis while it runs, and
-- the rest has time until the next.
local MOST = 1000
local grace, keep_place, ticket_ttl = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

-- The longest of all processes, until nobody has told it for two minutes.
local told, told_at = tonumber(line[2]) or 0, tonumber(line[3]) or 0
if tonumber(ARGV[1]) >= told or now_ms - told_at > 120000 then
  told = tonumber(ARGV[1])
  redis.call('HSET', meta, 'told_ms', int(told), 'told_at', int(now_ms))
end
local limit = told + grace
-- The zone grows with the rate and shrinks slowly: who is out of it for a moment,
-- because the rate shakes, would be listened to from the beginning.
local SHRINKS = 16 -- the part of it that it loses at most with a marking
local zone = math.floor(2 * (tonumber(line[8]) or 0) * limit / 1000)
zone = math.min(math.max(zone, tonumber(line[14]) or 0, tonumber(ARGV[5])), tonumber(ARGV[6]))

if #ARGV > 8 then
  local heard = {}
  for i = 9, #ARGV, 2 do
    heard[#heard + 1] = int(now_ms + tonumber(ARGV[i]))
    heard[#heard + 1] = ARGV[i + 1]
  end
  redis.call('ZADD', seen, unpack(heard))
end
if ARGV[7] == '1' then return { zone, 0, 0 } end

-- Since when whoever speaks would have been heard, and had a reason to speak.
local listening = tonumber(line[6]) or now_ms
if standing_still(line[9], line[10], line[11], line[12], line[15]) or now_ms - (tonumber(line[4]) or 0) > UNSWEPT
  or ARGV[8] == '1' then
  listening = now_ms
end
redis.call('HSET', meta, 'swept_at', int(now_ms), 'listening', int(listening), 'zone', int(zone))

local head, passed = tonumber(line[13]) or 0, tonumber(line[7]) or 0
local function chunked(command, key, values)
  for i = 1, #values, MOST do
    redis.call(command, key, unpack(values, i, math.min(i + MOST - 1, #values)))
  end
end

-- Marks the silent ones of the zone. seen is then exactly of those in the zone:
-- who is new in it may have been told the longest just now, and who is no longer in
-- it is forgotten, so that nobody is judged by what was heard before they drew near.
local function mark()
  local heard, scores = {}, redis.call('ZRANGE', seen, 0, -1, 'WITHSCORES')
  for i = 1, #scores, 2 do heard[scores[i]] = tonumber(scores[i + 1]) end
  local near = redis.call('ZRANGE', waiting, 0, zone - 1, 'WITHSCORES')
  local new, silent, moved, gone, lapsing, strangers = {}, {}, {}, {}, {}, {}
  for i = 1, #near, 2 do
    local subject, due = near[i], heard[near[i]]
    heard[subject] = nil
    if not due then
      new[#new + 1] = int(now_ms + told)
      new[#new + 1] = subject
    elseif now_ms > math.max(due, listening + told) + grace then
      silent[#silent + 1] = subject
      moved[#moved + 1] = near[i + 1]
      moved[#moved + 1] = subject
      gone[#gone + 1] = taken_out(near[i + 1], subject)
      if tonumber(near[i + 1]) <= head then
        lapsing[#lapsing + 1] = int(now_ms + keep_place)
        lapsing[#lapsing + 1] = subject
      end
    end
  end
  for subject in pairs(heard) do strangers[#strangers + 1] = subject end
  chunked('ZADD', seen, new)
  chunked('ZREM', seen, strangers)
  chunked('ZREM', seen, silent)
  chunked('ZREM', waiting, silent)
  note_moves(gone)
  chunked('ZADD', away, moved)
  chunked('ZADD', lapse, lapsing)
  return #silent
end

local marked = 0
if now_ms - (tonumber(line[5]) or 0) >= 500 then
  marked = mark()
  redis.call('HSET', meta, 'marked_at', int(now_ms), 'zone', int(zone - math.floor(zone / SHRINKS)))
end

-- Those away whom the head has passed since the last time. From where it had got
-- to, and not after it: two drawn places can be equal.
if head > passed then
  local due = redis.call('ZRANGEBYSCORE', away, int(passed), int(head), 'WITHSCORES', 'LIMIT', 0, MOST)
  for i = 1, #due, 2 do redis.call('ZADD', lapse, 'NX', int(now_ms + keep_place), due[i]) end
  redis.call('HSET', meta, 'passed', #due == 2 * MOST and due[#due] or int(head))
end
local over = redis.call('ZRANGEBYSCORE', lapse, '-inf', int(now_ms), 'LIMIT', 0, MOST)
for _, subject in ipairs(over) do
  local id = redis.call('HGET', tickets, subject)
  if id then give_up(id, subject, ticket_ttl) else redis.call('ZREM', lapse, subject) end
end
return { zone, marked, #over }
