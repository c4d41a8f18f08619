-- End a queued job that nobody will ever make; `retry` digs it up once somebody can.
-- KEYS none. ARGV: 1 id, 2 type of the failure, 3 its title, 4 its detail
-- Returns 1; 0: it is not queued any more.
local id = ARGV[1]
if redis.call('HGET', 'job:' .. id, 'status') ~= 'queued' then
  return 0
end
bury(id, ARGV[2], ARGV[3], ARGV[4])
return 1
