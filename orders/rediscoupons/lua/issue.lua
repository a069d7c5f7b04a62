-- Gives a visitor a coupon, finds theirs, turns them away, or leaves it to the database
-- and notes who asks there.
--
-- KEYS  1 codes of the coupon   2 claims
-- ARGV  1 visitor   2 the code they get if they have none   3 how many there are in all
--       4 how many the database is known to have given   5 coupon id   6 line of the
--       visitor
-- Reply {state, how many are given or asked for, code, stream entry}
--       committed  the visitor has this code, in the database
--       given      the visitor has this code, by Redis
--       issued     likewise, since now, by this entry
--       sold_out   none is left
--       asked      the database is being asked for this visitor; to be asked again
--       unknown    Redis has not all that the database has: that is to be asked, and the
--                  entry, if there is one, says so
-- O(1)
local codes, claims = KEYS[1], KEYS[2]
local visitor, quantity, issued = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4])

local read = redis.call('HEXISTS', codes, '')
local known = redis.call('HLEN', codes) - read
local ready = read == 1 and known >= issued
local has = redis.call('HGET', codes, visitor)

-- First the stream: if it cannot be written, nothing was. The hash can, it was just read.
local function note(mark)
  local entry = redis.call('XADD', claims, '*',
    'coupon', ARGV[5], 'visitor', visitor, 'line', ARGV[6], 'code', ARGV[2], 'mark', mark)
  redis.call('HSET', codes, visitor, mark .. ARGV[2])
  return entry
end

local mark = has and string.sub(has, 1, 1)
if mark == '?' then return {'given', known, string.sub(has, 2), ''} end
if has and mark ~= '!' then return {'committed', known, has, ''} end
if not ready then return {'unknown', known, '', has and '' or note('!')} end
if has then return {'asked', known, '', ''} end
if known >= quantity then return {'sold_out', known, '', ''} end
return {'issued', known + 1, ARGV[2], note('?')}
