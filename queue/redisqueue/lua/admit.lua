-- Lets in one batch from the head of the line, at most one per tick.
--
-- KEYS  all keys of the line
-- ARGV  1 rate (per second)   2 tick (µs)   3 jitter (ms)
--       4 admission's time to live (ms)     5 ticket's (s)   6 random seed
--       7 what bounds the rate; 'block' only asks whether this Redis takes a batch
-- Reply {skipped, limited_by, rate, dropped, now (µs), epoch, batch before (µs, 0: none), admitted…}, where each
--       admitted is subject, id, place, not_before, expires_at; rate and
--       dropped are text, since a number in a reply loses its fraction
-- O((k + x) log n) for k let in and x run out or forgotten, each bounded below
if redis.call('EXISTS', meta) == 0 then return NOT_OPEN end

-- What one batch may hold at most (queue.MaxRate × the longest tick): a script
-- stops all of Redis while it runs, and unpack() fails beyond about 8,000 values.
local MOST = 2000

local tick, jitter = tonumber(ARGV[2]), tonumber(ARGV[3])
local admission_ttl, ticket_ttl = tonumber(ARGV[4]), tonumber(ARGV[5])
local line = redis.call('HMGET', meta, 'batch_at', 'carry', 'paused', 'mode', 'rate_override', 'max_active', 'epoch',
  'opens_at', 'closes_at', 'hold_until')
local skipped = { 1, '', '0', '0', now_us, tonumber(line[7]), 0 }
if ARGV[7] == 'block' then
  redis.call('HSET', meta, 'asked_at', int(now_ms)) -- what cannot be written takes none
  return skipped
end
local last = tonumber(line[1]) or (now_us - tick) -- a first batch is worth one tick
local elapsed = now_us - last
if elapsed >= 0 and line[1] and math.floor(now_us / tick) == math.floor(last / tick) then
  return skipped
end
-- After a fail-over to a slower clock: nothing is owed for negative time.
if elapsed < 0 then elapsed = 0 end

if line[1] and elapsed > STALL then redis.call('HSET', meta, 'stall_from', line[1], 'stall_till', int(now_us)) end

-- Admissions that ran out unused give their share back.
local over = redis.call('ZRANGEBYSCORE', inside, '-inf', now_ms, 'LIMIT', 0, MOST)
for _, id in ipairs(over) do
  local admission = admission_of(id)
  if admission and missed(admission) then
    renew(id, admission, admission_ttl)
  elseif admission then
    end_admission(id, admission, 'expired', ticket_ttl)
  else
    redis.call('ZREM', inside, id) -- left or removed before
  end
end

-- Ends are forgotten when the last ticket that could ask has expired itself. One
-- that has ended again since waits for its later entry.
local function due(entry)
  local till, id = string.match(entry or '', '^(%d+):(.*)$')
  if till and tonumber(till) * 1000 <= now_ms then return id end
end
if due(redis.call('LINDEX', forget, 0)) then
  local ids, n = {}, 0
  for _, entry in ipairs(redis.call('LRANGE', forget, 0, MOST - 1)) do
    local id = due(entry)
    if not id then break end
    n = n + 1
    if not end_of(id) then ids[#ids + 1] = id end
  end
  redis.call('LTRIM', forget, n, -1)
  if #ids > 0 then redis.call('HDEL', ended, unpack(ids)) end
end

local length = redis.call('ZCARD', waiting)
local rate, limited_by = tonumber(ARGV[1]), ARGV[7]
if line[5] ~= '' then rate, limited_by = tonumber(line[5]), 'override' end

-- Time that a stall swallowed beyond two ticks is dropped, never banked into a
-- burst; the fraction of a permit is carried, so that 17.5 a tick is 175/s.
local owed = rate * math.min(elapsed, 2 * tick) / 1000000
local dropped = length > 0 and rate * math.max(elapsed - 2 * tick, 0) / 1000000 or 0
local permits = (tonumber(line[2]) or 0) + owed
local n = math.floor(permits + 1e-9) -- 35 × 0.1 s must not be 3.4999…
local carry = math.max(permits - n, 0)
if n > MOST then
  dropped = dropped + n - MOST
  n = MOST
end

local stop = standing_still(line[3], line[8], line[9], line[10], line[4])
if stop then
  n, limited_by, dropped = 0, stop, 0
elseif line[4] == 'passthrough' then
  n, limited_by, dropped, carry = MOST, 'passthrough', 0, 0
end
local cap = tonumber(line[6])
if cap > 0 and n > 0 then
  local room = math.max(cap - redis.call('ZCARD', inside), 0)
  if n > room then n, limited_by = room, 'max_active' end
end
if length <= n and not stop then n, limited_by = length, 'no_one_waiting' end

local reply = { 0, limited_by, string.format('%.17g', rate), string.format('%.17g', dropped), now_us,
  tonumber(line[7]), tonumber(line[1]) or 0 }
redis.call('HSET', meta, 'batch_at', int(now_us), 'carry', string.format('%.17g', carry),
  'rate', string.format('%.17g', rate), 'limited_by', limited_by)
if dropped > 0 then redis.call('HINCRBYFLOAT', meta, 'dropped', string.format('%.6f', dropped)) end
if n == 0 then return reply end

local popped = redis.call('ZPOPMIN', waiting, n)
local subjects = {}
for i = 1, #popped, 2 do subjects[#subjects + 1] = popped[i] end
local ids = redis.call('HMGET', tickets, unpack(subjects))

-- Stratified: the i-th of n gets a random moment of the i-th n-th of the window,
-- so that the batch arrives as a stream and in the order of the line.
math.randomseed(tonumber(ARGV[6]))
local records, expiries = {}, {}
local last_place = tonumber(popped[#popped])
local moved = { let_in_before(last_place) } -- and those at it, who need not be all that are
for i, subject in ipairs(subjects) do
  local place = tonumber(popped[2 * i])
  local nbf = now_ms + math.floor(jitter * (i - 1 + math.random()) / #subjects)
  local exp = nbf + admission_ttl
  if place == last_place then moved[#moved + 1] = taken_out(place, subject) end
  records[#records + 1] = ids[i]
  records[#records + 1] = pack({ place = place, at = now_ms, nbf = nbf, exp = exp, fetched = 0, arrived = 0, subject = subject })
  expiries[#expiries + 1] = int(exp)
  expiries[#expiries + 1] = ids[i]
  reply[#reply + 1] = subject
  reply[#reply + 1] = ids[i]
  reply[#reply + 1] = place
  reply[#reply + 1] = nbf
  reply[#reply + 1] = exp
end
redis.call('HSET', admitted, unpack(records))
redis.call('ZADD', inside, unpack(expiries))
note_moves(moved)
count_admitted(#subjects, last_place)
return reply
