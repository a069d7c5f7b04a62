-- Put in front of every other script. It names the keys of the line (always
-- all of them, in the order of keys.go), reads the store's clock, and holds the
-- few steps that several scripts share.
--
-- A script first checks, then writes: Redis does not roll back. Each is safe to
-- run twice, because a client repeats it when an answer was lost. Numbers that
-- become text go through int(): tostring and .. keep only 14 digits, and a
-- place in µs has 16.
local meta, waiting, away, lapse, seen, tickets, early, admitted, inside, ended, forget, aliases, cohorts, moves = unpack(KEYS)

local clock = redis.call('TIME')
local now_us = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local now_ms = math.floor(now_us / 1000)

local function int(n) return string.format('%.0f', n) end

-- Without its meta key the line does not exist here: it is new, or Redis has
-- lost it. The caller opens it with what it remembers and calls again.
local NOT_OPEN = redis.error_reply('NOTOPEN the line is not open')

-- queue.MaxDrawn and queue.MaxCohorts.
local MAX_DRAWN = 1125899906842623
local MAX_COHORTS = 128

local codes = { spent = 1, expired = 2, left = 3, removed = 4 }
local states = { 'spent', 'expired', 'left', 'removed' }

-- The phase of the schedule; '' or an absent field is no such time.
local function phase_of(opens_at, closes_at)
  opens_at, closes_at = tonumber(opens_at or ''), tonumber(closes_at or '')
  if closes_at and now_ms >= closes_at then return 'closed' end
  if opens_at and now_ms < opens_at then return 'scheduled' end
  return 'open'
end

-- What keeps the line from letting anybody in, whatever its rate; nil if nothing does.
local function standing_still(paused, opens_at, closes_at, hold_until, mode)
  if phase_of(opens_at, closes_at) ~= 'open' then return 'schedule' end
  if paused == '1' then return 'paused' end
  if now_ms < (tonumber(hold_until or '') or 0) then return 'recovering' end
  if mode == 'block' or mode == 'bypass' then return mode end
end

-- The last number of a packed record: 1 for who has arrived, and 2 for who was let in
-- without the line.
local function marks(a) return (a.arrived or 0) + (a.bypassed and 2 or 0) end

-- How a ticket ended (state, place, at, fetched, arrived, bypassed), or nil. O(1).
local function end_of(id)
  local packed = redis.call('HGET', ended, id)
  if not packed then return nil end
  local code, till, place, at, fetched, marked = string.match(packed, '^(%d):(%d+):(%d+):(%d+):(%d+):(%d)$')
  if tonumber(till) * 1000 <= now_ms then return nil end
  return { state = states[tonumber(code)], place = tonumber(place), at = tonumber(at), fetched = tonumber(fetched),
    arrived = tonumber(marked) % 2, bypassed = tonumber(marked) >= 2 }
end

-- Remembers how a ticket ended, for ttl_s seconds: a ticket signed until now
-- lives no longer than that. was has what is known of its place, at, fetched,
-- arrived and bypassed. O(1).
local function remember_end(id, state, ttl_s, was)
  was = was or {}
  local till = int(math.floor(now_ms / 1000) + ttl_s + 1)
  redis.call('HSET', ended, id, table.concat(
    { codes[state], till, int(was.place or 0), int(was.at or 0), int(was.fetched or 0), marks(was) }, ':'))
  redis.call('RPUSH', forget, till .. ':' .. id)
end

-- The live admission of a ticket, or nil. O(1).
local function admission_of(id)
  local packed = redis.call('HGET', admitted, id)
  if not packed then return nil end
  local place, at, nbf, exp, fetched, marked, subject =
    string.match(packed, '^(%d+):(%d+):(%d+):(%d+):(%d+):(%d):(.*)$')
  return { place = tonumber(place), at = tonumber(at), nbf = tonumber(nbf), exp = tonumber(exp),
    fetched = tonumber(fetched), arrived = tonumber(marked) % 2, bypassed = tonumber(marked) >= 2, subject = subject }
end

-- Processes that keep a copy of the places (follow.lua) are told of all that moves in the
-- line but those who come to its end, whom they see: who was put in, who was taken out, and
-- up to where a batch let in. So many moves are remembered; whoever missed more begins anew.
local MOST_MOVES = 10000
local function put_in(place, subject) return '+' .. int(place) .. ':' .. subject end
local function taken_out(place, subject) return '-' .. int(place) .. ':' .. subject end
local function let_in_before(place) return '<' .. int(place) .. ':' end

-- Notes moves, in their order. O(k) for k moves.
local function note_moves(k)
  if #k == 0 then return end
  for i = 1, #k, 1000 do redis.call('RPUSH', moves, unpack(k, i, math.min(i + 999, #k))) end
  redis.call('LTRIM', moves, -MOST_MOVES, -1)
  redis.call('HINCRBY', meta, 'moved', #k)
end

-- Takes a subject out of the line, wherever they stand. O(log n).
local function take_out(subject)
  local place = redis.call('ZSCORE', waiting, subject)
  if not place then return end
  redis.call('ZREM', waiting, subject)
  note_moves({ taken_out(place, subject) })
end

-- queue.StallAfter, in µs.
local STALL = 1000000

-- Whether an admission ran out in a stall without anybody having been told of it. A
-- stall is counted from the last batch before it to the first after it. O(1).
local function missed(a)
  if a.fetched ~= 0 then return false end
  local have = redis.call('HMGET', meta, 'batch_at', 'stall_from', 'stall_till')
  local last, from, till = tonumber(have[1] or ''), tonumber(have[2] or ''), tonumber(have[3] or '')
  local ends = a.exp * 1000
  return from and ends > from and ends <= till or last and now_us - last > STALL and ends > last
end

-- Packs an admission as admission_of reads it.
local function pack(a)
  return table.concat({ int(a.place), int(a.at), int(a.nbf), int(a.exp), int(a.fetched), marks(a), a.subject }, ':')
end

-- Gives an admission anew, from now on. O(log n).
local function renew(id, a, ttl_ms)
  a.nbf, a.exp = now_ms, now_ms + ttl_ms
  redis.call('HSET', admitted, id, pack(a))
  redis.call('ZADD', inside, int(a.exp), id)
end

-- Ends the live admission of a ticket and forgets whose it was. Who left or was
-- removed keeps the slot inside until the admission's own expiry: their token may
-- be out, and it is good until then. O(log n).
local function end_admission(id, a, state, ttl_s)
  redis.call('HDEL', admitted, id)
  if redis.call('HGET', tickets, a.subject) == id then redis.call('HDEL', tickets, a.subject) end
  remember_end(id, state, ttl_s, a)
  if state == 'spent' or state == 'expired' then
    redis.call('ZREM', inside, id)
    redis.call('HINCRBY', meta, state, 1)
  end
end

-- Ends the place of somebody waiting or away, and returns it. O(log n).
local function end_place(id, subject, state, ttl_s)
  local place = redis.call('ZSCORE', waiting, subject) or redis.call('ZSCORE', away, subject)
  take_out(subject)
  redis.call('ZREM', away, subject)
  redis.call('ZREM', lapse, subject)
  redis.call('HDEL', tickets, subject)
  remember_end(id, state, ttl_s, { place = tonumber(place or '') })
  return tonumber(place or '')
end

-- Gives up the place of somebody away whom the head has passed for too long.
local function give_up(id, subject, ttl_s)
  end_place(id, subject, 'expired', ttl_s)
  redis.call('HINCRBY', meta, 'given_up', 1)
end

-- Counts into the cohort of the second of at (ms). One that is forgotten stays so.
-- Of too many the one farthest from now gives way, which can be the new one: the
-- oldest, or after a fail-over to a slower clock those that are in the future now.
-- O(1), and O(cohorts) when a new one begins.
local function count_cohort(at, let_in, came)
  local second = int(math.floor(at / 1000))
  local have = redis.call('HGET', cohorts, second)
  if not have and let_in == 0 then return end
  if not have and redis.call('HLEN', cohorts) >= MAX_COHORTS then
    local function apart(key) return math.abs(tonumber(key) - math.floor(now_ms / 1000)) end
    local farthest = second
    for _, key in ipairs(redis.call('HKEYS', cohorts)) do
      if apart(key) > apart(farthest) then farthest = key end
    end
    if farthest == second then return end
    redis.call('HDEL', cohorts, farthest)
  end
  local before, arrived = string.match(have or '0:0', '^(%d+):(%d+)$')
  redis.call('HSET', cohorts, second, int(tonumber(before) + let_in) .. ':' .. int(tonumber(arrived) + came))
end

-- Counts n who were let in now, the last of them at a place. O(1).
local function count_admitted(n, place)
  redis.call('HINCRBY', meta, 'admitted', n)
  count_cohort(now_ms, n, 0)
  if place > (tonumber(redis.call('HGET', meta, 'head')) or 0) then redis.call('HSET', meta, 'head', int(place)) end
end

-- Counts the holder of an admission as arrived, once. The caller keeps a. O(1).
local function count_arrival(a)
  if a.arrived == 1 then return false end
  a.arrived = 1
  count_cohort(a.at, 0, 1)
  local lag, sample = tonumber(redis.call('HGET', meta, 'lag_ms') or ''), math.max(now_ms - a.at, 0)
  redis.call('HSET', meta, 'lag_ms', string.format('%.6f', lag and lag + (sample - lag) / 32 or sample))
  redis.call('HINCRBY', meta, 'arrived', 1)
  return true
end

-- Follows a second ticket of a visitor to the one that holds the place. O(1):
-- a visitor has as many tickets as the store had losses. No script makes a circle, but
-- one would stop all of Redis, so it is not followed for ever.
local function earliest(id)
  for _ = 1, 64 do
    local earlier = redis.call('HGET', aliases, id)
    if not earlier then break end
    id = earlier
  end
  return id
end

-- Raises the end of the hold to hold (ms) after the loss, if there was one.
local function hold_longer(hold)
  local have = redis.call('HMGET', meta, 'lost_at', 'hold_until')
  if not have[1] then return end
  local till = tonumber(have[1]) + hold
  if till > (tonumber(have[2]) or 0) then redis.call('HSET', meta, 'hold_until', int(till)) end
end

-- Notes that this store has lost its memory, once per incarnation: nobody is let
-- in for as long as the caller's hold (ms), which others raise to their own.
local function lose(hold)
  if redis.call('HSETNX', meta, 'lost_at', int(math.ceil(now_us / 1000))) == 1 then hold_longer(hold) end
end

-- Makes the epoch e and forgets everybody of the one before, and the draw. The
-- other settings and the floor of places stay. UNLINK frees the memory outside
-- of this script.
local function begin_epoch(e)
  redis.call('UNLINK', waiting, away, lapse, seen, tickets, early, admitted, inside, ended, forget, aliases, cohorts, moves)
  redis.call('HDEL', meta, 'admitted', 'arrived', 'spent', 'expired', 'left', 'given_up', 'dropped', 'carry',
    'rate', 'limited_by', 'bypassed', 'lag_ms', 'head', 'passed', 'started')
  redis.call('HSET', meta, 'epoch', int(e), 'seed', '', 'tickets_sha256', '')
end

-- Gives a line that is still to open a seed, if it has none; reports whether it
-- did, since the settings are others then.
local function ensure_seed(candidate)
  local have = redis.call('HMGET', meta, 'seed', 'opens_at')
  if (have[1] or '') ~= '' or (tonumber(have[2] or '') or 0) <= now_ms then return false end
  redis.call('HSET', meta, 'seed', candidate, 'tickets_sha256', '')
  return true
end
