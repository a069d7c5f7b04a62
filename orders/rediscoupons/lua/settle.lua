-- Notes what the database has answered for claims. To forget a visitor of whom it has
-- none is safe whatever has happened meanwhile: Redis may know too little.
--
-- KEYS  1 claims, then for each claim the codes of its coupon
-- ARGV  1 how long the codes live from now (s), then for each claim: visitor, the code
--       that the database has for them or empty if it refused, stream entry or empty, the
--       code in that entry; at most 100 claims
-- Reply OK
-- O(k) for k claims
local function code_of(entry)
  local found = redis.call('XRANGE', KEYS[1], entry, entry)[1]
  local fields = found and found[2] or {}
  for i = 1, #fields, 2 do
    if fields[i] == 'code' then return fields[i + 1] end
  end
  return found and ''
end

for i = 2, #KEYS do
  local codes, at = KEYS[i], 4 * i - 6
  local visitor, has, entry, noted = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  if has ~= '' then
    redis.call('HSET', codes, visitor, has)
    redis.call('EXPIRE', codes, ARGV[1])
  else
    redis.call('HDEL', codes, visitor)
  end
  -- After a loss another claim may have got the same entry.
  if entry ~= '' and code_of(entry) == noted then redis.call('XDEL', KEYS[1], entry) end
end
return redis.status_reply('OK')
