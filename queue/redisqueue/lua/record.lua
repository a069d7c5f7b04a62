-- Notes admissions that were given without the line: in bypass, or while Redis was
-- away.
--
-- KEYS  all keys of the line
-- ARGV  1 ticket's time to live (s)   2 the caller's hold after a loss (ms)
--       then epoch, subject, ticket id, place, admitted_at, not_before, expires_at
--       (ms), epoch, … of at most 50 admissions
-- Reply how many were not noted before
-- O(k log n) for k admissions
local epoch = tonumber(redis.call('HGET', meta, 'epoch') or '')
if not epoch then return NOT_OPEN end
local ticket_ttl, hold = tonumber(ARGV[1]), tonumber(ARGV[2])

-- Settles what the visitor holds under another ticket, current, or the same one.
-- Reports whether the recorded admission is the visitor's own from now on.
local function settle(id, a, current)
  local other = current ~= id and admission_of(current)
  local place = other and other.place
    or tonumber(redis.call('ZSCORE', waiting, a.subject) or redis.call('ZSCORE', away, a.subject) or '') or 0
  -- Who entered after this admission had run out did so with a new ticket, and
  -- holds it in their own right.
  if current ~= id and place > MAX_DRAWN and math.floor(place / 1000) >= a.exp then return false end
  if other and other.exp > now_ms then return false end -- never another than the one admitted with
  if current ~= id then
    redis.call('HSET', aliases, current, id)
    redis.call('HDEL', early, current)
    redis.call('EXPIRE', aliases, ticket_ttl + 1)
  end
  take_out(a.subject)
  redis.call('ZREM', away, a.subject)
  redis.call('ZREM', lapse, a.subject)
  redis.call('HDEL', tickets, a.subject)
  return true
end

local function record(id, a)
  local first = earliest(id)
  local over = end_of(first)
  -- An order may be told of before the admission that it was made with.
  local spent = over and first == id and over.state == 'spent' and over.at == 0
  if over and not spent or admission_of(first) then return false end

  redis.call('HINCRBY', meta, 'admitted', 1)
  redis.call('HINCRBY', meta, 'bypassed', 1)
  count_cohort(a.at, 1, spent and over.arrived or 0)
  -- Its place proves that it was in the draw; when it entered its holder may tell.
  if a.place > 0 and a.place <= MAX_DRAWN then redis.call('HSETNX', early, id, 0) end
  if spent then
    a.arrived = over.arrived
    remember_end(id, 'spent', ticket_ttl, a)
    return true
  end

  local current = redis.call('HGET', tickets, a.subject)
  local own = not current or settle(id, a, current)
  -- What is held maps to nothing, whatever it did before: following it would never end.
  if own then redis.call('HDEL', aliases, id) end
  if a.exp > now_ms then
    if own then redis.call('HSET', tickets, a.subject, id) end
    redis.call('HSET', admitted, id, pack(a))
    redis.call('ZADD', inside, int(a.exp), id)
  else
    remember_end(id, 'expired', ticket_ttl, a)
    redis.call('HINCRBY', meta, 'expired', 1)
  end
  return true
end

local fresh = 0
for i = 3, #ARGV, 7 do
  local given = tonumber(ARGV[i])
  if given > epoch then -- this Redis has forgotten a restart
    begin_epoch(given)
    lose(hold)
    epoch = given
  end
  local at = tonumber(ARGV[i + 4])
  local a = { subject = ARGV[i + 1], place = tonumber(ARGV[i + 3]), at = at, nbf = tonumber(ARGV[i + 5]),
    exp = tonumber(ARGV[i + 6]), fetched = at, arrived = 0, bypassed = true } -- it was told when it was given
  if given == epoch and record(ARGV[i + 2], a) then fresh = fresh + 1 end
end
return fresh
