-- Where a visitor stands; on enter, a new place if they hold none.
--
-- All rules about who may be put back where are here: a ticket without a record
-- or away returns to its signed place; one that has ended stays ended; of two
-- tickets of one subject the earlier place and its id win.
--
-- KEYS  all keys of the line
-- ARGV  1 subject
--       2 id of the ticket held, or ''    3 its epoch    4 its place (µs)
--       5 id for a new place, or '' when only asking
--       6 random number in [0,1) for the jitter of a direct admission
--       7 jitter (ms)    8 admission's time to live (ms)    9 ticket's (s)
-- Reply {state, created, epoch, id, place,  position, length}     while waiting
--       {state, created, epoch, id, place,  admitted_at, nbf, exp} if admitted
--       {state, 0, epoch, id}     if ended      {'epoch'} of an earlier epoch
--       {'full'} when there is no room for a new place
-- O(log n)
if redis.call('EXISTS', meta) == 0 then return NOT_OPEN end

local subject, new_id = ARGV[1], ARGV[5]
local held, held_epoch, held_place = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local jitter, admission_ttl, ticket_ttl = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local line = redis.call('HMGET', meta, 'epoch', 'floor', 'mode', 'paused', 'max_active', 'max_length')
local epoch, floor = tonumber(line[1]), tonumber(line[2])
local entering = new_id ~= ''

if held ~= '' and held_epoch > epoch then
  -- Validly signed, so it was given out: this Redis has forgotten a restart.
  begin_epoch(held_epoch)
  epoch = held_epoch
elseif held ~= '' and held_epoch < epoch then
  if not entering then return { 'epoch' } end
  held = ''
end

if held ~= '' then
  held = earliest(held)
  local over = end_of(held)
  if over and not entering then return { over, 0, epoch, held } end
  if over then held = '' end
end

-- What the subject has now: a ticket, and with it an admission or a place.
local current = redis.call('HGET', tickets, subject)
local place, at, nbf, exp
if current then
  place, at, nbf, exp = admission_of(current)
  if exp and exp <= now_ms then
    end_admission(current, subject, 'expired', ticket_ttl)
    if held == current then
      if not entering then return { 'expired', 0, epoch, held } end
      held = ''
    end
    current, place, at, nbf, exp = false, nil, nil, nil, nil
  elseif not exp then
    place = tonumber(redis.call('ZSCORE', waiting, subject) or redis.call('ZSCORE', away, subject))
  end
end

-- In passthrough whoever enters goes straight in, if the cap on people inside
-- leaves room for them and for everybody in front of them.
local function may_pass(ahead)
  if not entering or line[3] ~= 'passthrough' or line[4] == '1' then return false end
  local cap = tonumber(line[5])
  return cap == 0 or redis.call('ZCARD', inside) + ahead < cap
end

local created = 0
if current and held ~= '' and held ~= current then
  local from, to = held, current
  if not exp and held_place < place then
    from, to = current, held
    current, place = held, held_place
  end
  redis.call('HSET', aliases, from, to)
  redis.call('EXPIRE', aliases, ticket_ttl + 1)
elseif not current and held ~= '' then
  current, place = held, held_place
elseif not current then
  local length, cap = redis.call('ZCARD', waiting), tonumber(line[6])
  if cap > 0 and length >= cap and not may_pass(length) then return { 'full' } end
  current, place, created = new_id, math.max(now_us, floor + 1), 1
end

if not exp then
  if place > floor then redis.call('HSET', meta, 'floor', int(place)) end
  redis.call('HSET', tickets, subject, current)
  redis.call('ZREM', away, subject)
  redis.call('ZADD', waiting, int(place), subject)
  local ahead = redis.call('ZRANK', waiting, subject)
  if not may_pass(ahead) then
    return { 'waiting', created, epoch, current, place, ahead + 1, redis.call('ZCARD', waiting) }
  end
  redis.call('ZREM', waiting, subject)
  at, nbf = now_ms, now_ms + math.floor(jitter * tonumber(ARGV[6]))
  exp = nbf + admission_ttl
  redis.call('HSET', admitted, current, pack(place, nbf, exp, subject))
  redis.call('ZADD', inside, int(exp), current)
  redis.call('HINCRBY', meta, 'admitted', 1)
end
return { 'admitted', created, epoch, current, place, at, nbf, exp }
