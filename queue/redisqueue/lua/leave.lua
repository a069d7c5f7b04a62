-- Ends what a subject holds: a visitor leaves, or an operator removes them.
--
-- KEYS  all keys of the line
-- ARGV  1 subject   2 'left' or 'removed'   3 ticket's time to live (s)
--       4 id of the ticket held, or '' when the subject alone is named
--       5 its epoch
-- Reply 1 if there was something to end, else 0
-- O(log n)
if redis.call('EXISTS', meta) == 0 then return NOT_OPEN end

local subject, state, ticket_ttl, held = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
if held ~= '' then
  local epoch = tonumber(redis.call('HGET', meta, 'epoch'))
  if tonumber(ARGV[5]) < epoch then return 0 end
  if tonumber(ARGV[5]) > epoch then begin_epoch(ARGV[5]) end -- as in visit.lua
  held = earliest(held)
  if end_of(held) then return 0 end -- how it ended stays as it was
end

local current = redis.call('HGET', tickets, subject)
-- A ticket ends its own place only: it may be so old that its own end is
-- forgotten, and its visitor has another place since.
if held ~= '' and held ~= current then
  remember_end(held, state, ticket_ttl)
  return 0
end
if current then
  if admission_of(current) then
    end_admission(current, subject, state, ticket_ttl)
  else
    redis.call('ZREM', waiting, subject)
    redis.call('ZREM', away, subject)
    redis.call('HDEL', tickets, subject)
    remember_end(current, state, ticket_ttl)
  end
end
return current and 1 or 0
