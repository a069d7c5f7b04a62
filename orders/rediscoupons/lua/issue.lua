-- Gives visitors a coupon each, finds theirs, turns them away, or leaves it to the
-- database and notes who asks there.
--
-- KEYS  1 claims, then for each claim the codes of its coupon
-- ARGV  for each claim: visitor, the code they get if they have none, how many there are
--       in all, how many the database is known to have given, coupon id, line of the
--       visitor; at most 100 claims
-- Reply for each claim {state, how many are given or asked for, code, stream entry}
--       committed  the visitor has this code, in the database
--       given      the visitor has this code, by Redis
--       issued     likewise, since now, by this entry
--       sold_out   none is left
--       asked      the database is being asked for this visitor; to be asked again
--       unknown    Redis has not all that the database has: that is to be asked, and the
--                  entry, if there is one, says so
-- O(k) for k claims
local claims = KEYS[1]

local function issue(codes, visitor, code, quantity, issued, coupon, line)
  local read = redis.call('HEXISTS', codes, '')
  local known = redis.call('HLEN', codes) - read
  local ready = read == 1 and known >= issued
  local has = redis.call('HGET', codes, visitor)

  -- First the stream: if it cannot be written, nothing was. The hash can, it was just read.
  local function note(mark)
    local entry = redis.call('XADD', claims, '*',
      'coupon', coupon, 'visitor', visitor, 'line', line, 'code', code, 'mark', mark)
    redis.call('HSET', codes, visitor, mark .. code)
    return entry
  end

  local mark = has and string.sub(has, 1, 1)
  if mark == '?' then return {'given', known, string.sub(has, 2), ''} end
  if has and mark ~= '!' then return {'committed', known, has, ''} end
  if not ready then return {'unknown', known, '', has and '' or note('!')} end
  if has then return {'asked', known, '', ''} end
  if known >= quantity then return {'sold_out', known, '', ''} end
  return {'issued', known + 1, code, note('?')}
end

local replies = {}
for i = 2, #KEYS do
  local at = 6 * i - 11
  replies[i - 1] = issue(KEYS[i], ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), ARGV[at + 4], ARGV[at + 5])
end
return replies
