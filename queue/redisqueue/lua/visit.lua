-- Where a visitor stands; on enter, a new place if they hold none.
--
-- All rules about who may be put back where are here: a ticket without a record
-- or away returns to its signed place, an early one to its drawn place; one that
-- has ended stays ended; of two tickets of one subject the earlier place and its
-- id win.
--
-- KEYS  all keys of the line
-- ARGV  1 subject
--       2 id of the ticket held, or ''   3 its epoch   4 its place (signed, µs,
--         or drawn from the seed below)  5 when it was given (ms)
--       6 1 if it is an early one, else 0
--       7 id for a new place, or '' when only asking
--       8 the place drawn for that id    9 the seed that places were drawn from
--       10 random number in [0,1) for the jitter of a direct admission
--       11 jitter (ms)   12 admission's time to live (ms)   13 ticket's (s)
--       14 the caller's hold after a loss (ms)
-- Reply {state, created, epoch, id, place, entered, position, length} of a place:
--         waiting, scheduled or closed
--       {'admitted', created, epoch, id, place, entered, admitted_at, nbf, exp}
--       {state, 0, epoch, id}     if ended      {'epoch'} of an earlier epoch
--       {'full'}                  when there is no room for a new place
--       {'shut'}                  to who would enter a line that has closed
--       {'seed'}                  if a place is needed that this seed did not draw
--       entered is in ms of an early ticket, and 0 of any other
-- O(log n)
local epoch = tonumber(redis.call('HGET', meta, 'epoch') or '')
if not epoch then return NOT_OPEN end

local subject, new_id = ARGV[1], ARGV[7]
local held, held_epoch, held_place = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local held_entered, held_early = tonumber(ARGV[5]), ARGV[6] == '1'
local jitter, admission_ttl, ticket_ttl, hold = tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13]), tonumber(ARGV[14])
local entering = new_id ~= ''

if held ~= '' and held_epoch > epoch then
  -- Validly signed, so it was given out: this Redis has forgotten a restart.
  begin_epoch(held_epoch)
  lose(hold)
  epoch = held_epoch
elseif held ~= '' and held_epoch < epoch then
  if not entering then return { 'epoch' } end
  held = ''
end

local line = redis.call('HMGET', meta, 'floor', 'created', 'seed', 'opens_at', 'closes_at',
  'mode', 'paused', 'max_active', 'max_length', 'started')
local floor, phase = tonumber(line[1]), phase_of(line[4], line[5])

local shown = held -- the ticket itself, when held becomes the one it maps to
if held ~= '' then
  held = earliest(held)
  local over = end_of(held)
  if over and not entering then return { over.state, 0, epoch, held } end
  if over then held = '' end
end

-- What the subject has now: a ticket, and with it an admission or a place.
local current = redis.call('HGET', tickets, subject)
local admission, place, waits, strayed
if current then
  admission = admission_of(current)
  if not admission then
    place = tonumber(redis.call('ZSCORE', waiting, subject) or '')
    waits = place ~= nil
    place = place or tonumber(redis.call('ZSCORE', away, subject) or '')
    strayed = place ~= nil and not waits
  end
  local lapses = strayed and tonumber(redis.call('ZSCORE', lapse, subject) or '')
  if admission and admission.exp <= now_ms and missed(admission) then renew(current, admission, admission_ttl) end
  local over = admission and admission.exp <= now_ms or lapses and lapses <= now_ms
  if over and admission then end_admission(current, admission, 'expired', ticket_ttl) end
  if over and not admission then give_up(current, subject, ticket_ttl) end
  if over and held == current then
    if not entering then return { 'expired', 0, epoch, held } end
    held = ''
  end
  -- Without a place it stood in a draw that another has replaced.
  if over or not admission and not place then current, admission, place = false, nil, nil end
end

local unknown, fresh = held ~= '' and held ~= current, not current and held == ''
if unknown and held == shown and held_entered < (tonumber(line[2]) or 0) then lose(hold) end
if phase == 'closed' and entering and not admission then return { 'shut' } end
-- A draw that nobody knows any more is drawn from '': who was early stands in
-- front, until somebody brings the seed.
local seed = line[3] or ''
if (unknown and held_early or fresh and phase == 'scheduled') and (seed ~= ARGV[9] or seed == '' and phase == 'scheduled') then
  return { 'seed' }
end

-- In passthrough whoever enters goes straight in, if the cap on people inside
-- leaves room for them and for everybody in front of them.
local function may_pass(ahead)
  if not entering or line[6] ~= 'passthrough' or line[7] == '1' or phase ~= 'open' then return false end
  if now_ms < (tonumber(redis.call('HGET', meta, 'hold_until') or '') or 0) then return false end
  local cap = tonumber(line[8])
  return cap == 0 or redis.call('ZCARD', inside) + ahead < cap
end

local created = 0
if unknown and held_early then redis.call('HSETNX', early, held, int(held_entered)) end
if current and unknown then
  local from, to = held, current
  if not admission and held_place < place then
    from, to = current, held
    current, place = held, held_place
  end
  redis.call('HSET', aliases, from, to)
  redis.call('HDEL', early, from) -- one ticket of each visitor is in the draw
  redis.call('EXPIRE', aliases, ticket_ttl + 1)
elseif unknown then
  current, place = held, held_place
elseif fresh then
  local length, cap = redis.call('ZCARD', waiting), tonumber(line[9])
  if cap > 0 and length >= cap and not may_pass(length) then return { 'full' } end
  current, created = new_id, 1
  if phase == 'scheduled' then
    place = tonumber(ARGV[8])
    redis.call('HSET', early, new_id, int(now_ms))
  else
    place = math.max(now_us, floor + 1)
  end
end

local entered = 0
if (admission or { place = place }).place <= MAX_DRAWN then
  entered = tonumber(redis.call('HGET', early, current) or '') or 0
  if entered == 0 and held_early and shown == current then
    entered = held_entered -- recorded as let in by somebody who did not know
    redis.call('HSET', early, current, int(entered))
  end
end
if not admission then
  if entered == 0 and (place > floor or not line[10]) then
    redis.call('HSET', meta, 'floor', int(math.max(place, floor)), 'started', 1)
  end
  redis.call('HSET', tickets, subject, current)
  local before = waits and tonumber(redis.call('ZSCORE', waiting, subject))
  if before ~= place then
    redis.call('ZADD', waiting, int(place), subject)
    if before then note_moves({ taken_out(before, subject) }) end
    if not fresh or phase == 'scheduled' then note_moves({ put_in(place, subject) }) end
  end
  if strayed then
    redis.call('ZREM', away, subject)
    redis.call('ZREM', lapse, subject)
  end
  if not waits then redis.call('ZREM', seen, subject) end -- of an earlier place; the sweep counts anew
  local ahead = redis.call('ZRANK', waiting, subject)
  if not may_pass(ahead) then
    return { phase == 'open' and 'waiting' or phase, created, epoch, current, place, entered,
      ahead + 1, redis.call('ZCARD', waiting) }
  end
  take_out(subject)
  local nbf = now_ms + math.floor(jitter * tonumber(ARGV[10]))
  admission = { place = place, at = now_ms, nbf = nbf, exp = nbf + admission_ttl, fetched = 0, arrived = 0, subject = subject }
  redis.call('ZADD', inside, int(admission.exp), current)
  count_admitted(1, place)
end
if admission.fetched == 0 then
  admission.fetched = now_ms
  redis.call('HSET', admitted, current, pack(admission))
end
return { 'admitted', created, epoch, current, admission.place, entered, admission.at, admission.nbf, admission.exp }
