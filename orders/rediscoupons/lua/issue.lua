-- Gives a visitor a coupon, finds theirs, or turns them away.
--
-- KEYS  1 codes of the coupon   2 claims
-- ARGV  1 visitor   2 the code they get if they have none   3 how many there are in all
--       4 how many the database is known to have given   5 coupon id   6 line of the
--       visitor   7 how long the codes live from now (s)
-- Reply {state, how many Redis knows to be given, code as in the hash, stream entry}
--       unknown   Redis has not all that the database has
--       has       the visitor has this code
--       sold_out  none is left
--       issued    the visitor has this code now, by this entry
-- O(1)
local codes, claims = KEYS[1], KEYS[2]
local visitor, quantity, issued = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4])

local known = redis.call('HLEN', codes) - 1 -- the empty field
if redis.call('HEXISTS', codes, '') == 0 or known < issued then return {'unknown', 0, '', ''} end
local code = redis.call('HGET', codes, visitor)
if code then return {'has', known, code, ''} end
if known >= quantity then return {'sold_out', known, '', ''} end

-- First the stream: if it cannot be written, nothing was. The hash can, it was just read.
local entry = redis.call('XADD', claims, '*',
  'coupon', ARGV[5], 'visitor', visitor, 'line', ARGV[6], 'code', ARGV[2])
code = '?' .. ARGV[2]
redis.call('HSET', codes, visitor, code)
redis.call('EXPIRE', codes, ARGV[7])
return {'issued', known + 1, code, entry}
