-- Put in front of every other script. It names the keys of the line (always
-- all of them, in the order of keys.go), reads the store's clock, and holds the
-- few steps that several scripts share.
--
-- A script first checks, then writes: Redis does not roll back. Each is safe to
-- run twice, because a client repeats it when an answer was lost. Numbers that
-- become text go through int(): tostring and .. keep only 14 digits, and a
-- place in µs has 16.
local meta, waiting, away, tickets, admitted, inside, ended, aliases = unpack(KEYS)

local clock = redis.call('TIME')
local now_us = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local now_ms = math.floor(now_us / 1000)

local function int(n) return string.format('%.0f', n) end

-- Without its meta key the line does not exist here: it is new, or Redis has
-- lost it. The caller opens it with what it remembers and calls again.
local NOT_OPEN = redis.error_reply('NOTOPEN the line is not open')

local codes = { spent = 1, expired = 2, left = 3, removed = 4 }
local states = { 'spent', 'expired', 'left', 'removed' }

-- How a ticket ended, or nil. O(1).
local function end_of(id)
  local score = redis.call('ZSCORE', ended, id)
  if not score then return nil end
  score = tonumber(score)
  if math.floor(score / 8) * 1000 <= now_ms then return nil end
  return states[score % 8]
end

-- Remembers how a ticket ended, for ttl_s seconds: a ticket signed until now
-- lives no longer than that. O(log n).
local function remember_end(id, state, ttl_s)
  redis.call('ZADD', ended, int((math.floor(now_ms / 1000) + ttl_s + 1) * 8 + codes[state]), id)
end

-- The live admission of a ticket, or nil: place, admitted_at, not_before,
-- expires_at, subject. O(1).
local function admission_of(id)
  local packed = redis.call('HGET', admitted, id)
  if not packed then return nil end
  local place, at, nbf, exp, subject = string.match(packed, '^(%d+):(%d+):(%d+):(%d+):(.*)$')
  return tonumber(place), tonumber(at), tonumber(nbf), tonumber(exp), subject
end

-- Packs an admission as admission_of reads it; times in ms.
local function pack(place, nbf, exp, subject)
  return int(place) .. ':' .. int(now_ms) .. ':' .. int(nbf) .. ':' .. int(exp) .. ':' .. subject
end

-- Ends the live admission of a ticket and forgets whose it was. Who left or was
-- removed keeps the slot inside until the admission's own expiry: their token may
-- be out, and it is good until then. O(log n).
local function end_admission(id, subject, state, ttl_s)
  redis.call('HDEL', admitted, id)
  if state == 'spent' or state == 'expired' then redis.call('ZREM', inside, id) end
  if redis.call('HGET', tickets, subject) == id then redis.call('HDEL', tickets, subject) end
  remember_end(id, state, ttl_s)
  if state == 'spent' or state == 'expired' then redis.call('HINCRBY', meta, state, 1) end
end

-- Follows a second ticket of a visitor to the one that holds the place. O(1):
-- a visitor has as many tickets as the store had losses.
local function earliest(id)
  local earlier = redis.call('HGET', aliases, id)
  while earlier do
    id = earlier
    earlier = redis.call('HGET', aliases, id)
  end
  return id
end

-- Makes the epoch e and forgets everybody of the one before. Settings and the
-- floor of places stay. UNLINK frees the memory outside of this script.
local function begin_epoch(e)
  redis.call('UNLINK', waiting, away, tickets, admitted, inside, ended, aliases)
  redis.call('HDEL', meta, 'admitted', 'spent', 'expired', 'dropped', 'carry', 'rate', 'limited_by')
  redis.call('HSET', meta, 'epoch', int(e))
end
