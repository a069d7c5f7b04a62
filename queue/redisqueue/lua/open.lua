-- Opens the line, or puts back what Redis has forgotten of it: a later epoch, a
-- higher floor of places, settings of a higher revision. Never goes back. It also
-- takes in that the caller has seen a loss, and how long it wants to hold.
--
-- KEYS  all keys of the line
-- ARGV  1 epoch (as the caller last knew it)   2 floor (µs)   3 revision
--       4 1 if the caller has known the line, else 0
--       5 created (ms) of the incarnation it knew, 0 if it does not know
--       6 how long it wants to hold after a loss (ms)   7 a fresh seed
--       8 1 if its settings were the line's, 0 if it was merely born with them
--       then the settings as field, value, field, value, …
-- Reply {created (ms), lost_at (ms, 0 if nothing was lost)}
-- O(1); O(n) when the seed of a draw with n early tickets is replaced and others wait
-- behind them
local epoch, floor, revision = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local knew, knew_created, hold = ARGV[4] == '1', tonumber(ARGV[5]), tonumber(ARGV[6])
local settled, SETTINGS = ARGV[8] == '1', 9 -- SETTINGS is where they begin

local fresh = redis.call('EXISTS', meta) == 0
local have = redis.call('HMGET', meta, 'epoch', 'floor', 'revision', 'created')
local created = tonumber(have[4]) or now_ms
-- Whom a caller of an earlier epoch knew cannot come back: nothing to hold for.
local lost = knew and (fresh or knew_created > 0 and knew_created ~= created and epoch >= tonumber(have[1]))

-- Of two settings of one revision the larger hash wins, so that all processes
-- come to the same; but only of those that somebody really had: what a process
-- was merely born with is no word against the store's.
local function larger_hash()
  local fields, mine = {}, {}
  for i = SETTINGS, #ARGV, 2 do
    fields[#fields + 1] = ARGV[i]
    mine[#mine + 1] = ARGV[i + 1]
  end
  local theirs = redis.call('HMGET', meta, unpack(fields))
  for i, value in ipairs(theirs) do theirs[i] = value or '' end
  return redis.sha1hex(table.concat(mine, '\0')) > redis.sha1hex(table.concat(theirs, '\0'))
end

if fresh or epoch > tonumber(have[1]) then
  begin_epoch(epoch)
  -- It has forgotten a restart, and with it everybody who came after.
  lost = lost or not fresh
end
if fresh then redis.call('HSET', meta, 'created', int(now_ms)) end
if fresh or floor > tonumber(have[2]) then redis.call('HSET', meta, 'floor', int(floor)) end

local theirs, seed = tonumber(have[3]), redis.call('HGET', meta, 'seed')
local equal = not fresh and revision == theirs and settled
if equal and knew_created > 0 and knew_created ~= created then
  -- A draw announced before the loss stands against one of the same revision that a
  -- process which never knew the line has made since. One revision more, or that
  -- process would weigh the two again.
  local mine = {}
  for i = SETTINGS, #ARGV, 2 do mine[ARGV[i]] = ARGV[i + 1] end
  if (tonumber(mine.opens_at) or 0) > now_ms and mine.seed ~= '' and mine.seed ~= seed then revision = revision + 1 end
end
if fresh or revision > theirs or equal and larger_hash() then
  redis.call('HSET', meta, 'revision', int(revision), unpack(ARGV, SETTINGS))
  redis.call('HSET', meta, 'listening', int(now_ms)) -- they may end a pause, as in configure.lua
  if redis.call('HGET', meta, 'seed') ~= seed then
    -- Who stands at a place of another draw comes back to the right one with the
    -- next poll, as after a loss: nobody who was not drawn goes in before. To take a
    -- million out one by one stops Redis for a second.
    redis.call('HINCRBY', meta, 'moved', 1) -- and the move itself is not told: all copies begin anew
    redis.call('UNLINK', moves)
    local gone = redis.call('ZREMRANGEBYSCORE', away, '-inf', MAX_DRAWN)
    if redis.call('ZCOUNT', waiting, '(' .. int(MAX_DRAWN), '+inf') == 0 then
      gone = gone + redis.call('ZCARD', waiting)
      redis.call('UNLINK', waiting)
    else
      gone = gone + redis.call('ZREMRANGEBYSCORE', waiting, '-inf', MAX_DRAWN)
    end
    if gone > 0 then
      lost = true
      redis.call('HDEL', meta, 'lost_at')
    end
    -- Nor does it count how far the head had come in that draw, and for how long.
    redis.call('UNLINK', lapse)
    redis.call('HDEL', meta, 'head', 'passed')
  end
end
-- The lowest revision that is news: a seed that somebody still knows must win.
if ensure_seed(ARGV[7]) then redis.call('HINCRBY', meta, 'revision', 1) end

if lost then lose(hold) end
hold_longer(hold)
return { created, tonumber(redis.call('HGET', meta, 'lost_at')) or 0 }
