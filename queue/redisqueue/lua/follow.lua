-- What a process needs to bring its copy of the places up to date: the moves since then,
-- and the next places at the end. It changes nothing; a script, since all of it must be
-- of one moment.
--
-- KEYS  all keys of the line
-- ARGV  1 created (ms) and 2 epoch of the copy   3 its count of moves, -1 without a copy
--       4 the place up to which it is complete   5 how many places are wanted at most
--       6 the last of its moves, or ''
-- Reply {continued, created, epoch, moves counted, length, first place, {seed, opens_at,
--         closes_at}, {moves}, {subject, place, …}, the last move}
--       continued is 0 if the copy is of another line than this one, or so old that its
--       moves are forgotten, or has a last move that is not this line's: Redis has failed
--       over to one that lacked it; then the places are the first ones, for a new copy
-- O(log n + m + k) for m moves and k places
local line = redis.call('HMGET', meta, 'created', 'epoch', 'moved', 'seed', 'opens_at', 'closes_at')
if not line[2] then return NOT_OPEN end
local counted, since = tonumber(line[3] or '') or 0, tonumber(ARGV[3])
local news = counted - since
local continued = ARGV[1] == line[1] and ARGV[2] == line[2] and since >= 0
  and news >= 0 and news <= redis.call('LLEN', moves)
  and (ARGV[6] == '' or redis.call('LINDEX', moves, -news - 1) == ARGV[6])
local first = redis.call('ZRANGE', waiting, 0, 0, 'WITHSCORES')
return { continued and 1 or 0, tonumber(line[1]), tonumber(line[2]), counted, redis.call('ZCARD', waiting),
  tonumber(first[2] or '') or 0, { line[4] or '', line[5] or '', line[6] or '' },
  continued and news > 0 and redis.call('LRANGE', moves, -news, -1) or {},
  redis.call('ZRANGEBYSCORE', waiting, continued and '(' .. ARGV[4] or '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, tonumber(ARGV[5])),
  redis.call('LINDEX', moves, -1) or '' }
