-- Notes what the database has answered for claims.
--
-- KEYS  1 claims, then for each claim the codes of its coupon
-- ARGV  1 how long the codes live from now (s), then for each claim: visitor, the code it
--       was to have, the code that the database has for the visitor or empty if it
--       refused, stream entry or empty; at most 500 claims
-- Reply nothing
-- O(k) for k claims
for i = 2, #KEYS do
  local codes, at = KEYS[i], 4 * (i - 2) + 2
  local visitor, given, has, entry = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  if has ~= '' then
    redis.call('HSET', codes, visitor, has)
    redis.call('EXPIRE', codes, ARGV[1])
  elseif redis.call('HGET', codes, visitor) == '?' .. given then
    redis.call('HDEL', codes, visitor)
  end
  if entry ~= '' then redis.call('XDEL', KEYS[1], entry) end
end
return redis.status_reply('OK')
