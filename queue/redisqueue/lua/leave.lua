-- Ends what a subject holds: a visitor leaves, or an operator removes them.
--
-- KEYS  all keys of the line
-- ARGV  1 subject   2 'left' or 'removed'   3 ticket's time to live (s)
--       4 id of the ticket held, or '' when the subject alone is named
--       5 its epoch   6 when it was given (ms)   7 1 if it is an early one, else 0
--       8 its signed place (µs), 0 if it has none   9 the caller's hold after a loss (ms)
-- Reply 1 if there was something to end, else 0
-- O(log n)
local epoch = tonumber(redis.call('HGET', meta, 'epoch') or '')
if not epoch then return NOT_OPEN end

local subject, state, ticket_ttl, held = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local hold = tonumber(ARGV[9])
local shown = held
if held ~= '' then
  if tonumber(ARGV[5]) < epoch then return 0 end
  if tonumber(ARGV[5]) > epoch then -- as in visit.lua
    begin_epoch(ARGV[5])
    lose(hold)
  end
  held = earliest(held)
  if end_of(held) then return 0 end -- how it ended stays as it was
end

local current = redis.call('HGET', tickets, subject)
-- A ticket ends its own place only: it may be so old that its own end is
-- forgotten, and its visitor has another place since.
if held ~= '' and held ~= current then
  if held == shown and tonumber(ARGV[6]) < (tonumber(redis.call('HGET', meta, 'created') or '') or 0) then lose(hold) end
  -- Who drew and left has drawn.
  if held == shown and ARGV[7] == '1' then redis.call('HSETNX', early, held, ARGV[6]) end
  remember_end(held, state, ticket_ttl, { place = tonumber(ARGV[8]) })
  return 0
end
if not current then return 0 end
local admission = admission_of(current)
if admission then
  end_admission(current, admission, state, ticket_ttl)
else
  end_place(current, subject, state, ticket_ttl)
  redis.call('HINCRBY', meta, 'left', 1)
end
return 1
