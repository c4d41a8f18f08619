-- Say what workers reported since somebody looked last, and who has fallen silent since.
-- KEYS none. ARGV: 1 epoch of what was read last, 2 its number, 3 when all had been read (ms),
--   4 for how long one may be silent (ms), 5 reports of one answer
-- Returns epoch, number, when (0: there is more), names, their reports (nil: gone), and who has fallen
--   silent since or within a minute before, for this server's clock may be set.
--   Where epoch or number are not of this server's count it begins anew, with another epoch.
local r = redis.call('HMGET', 'fleet:number', 'epoch', 'last')
local epoch, last, heard = r[1] or '0', tonumber(r[2] or '0'), tonumber(ARGV[3])
local since, most = tonumber(ARGV[2]), tonumber(ARGV[5])
if epoch ~= ARGV[1] or last < since then
  since, heard = 0, 0
  if epoch == ARGV[1] then
    epoch = string.format('%.0f', now)
    redis.call('HSET', 'fleet:number', 'epoch', epoch)
  end
end
local flat = redis.call('ZRANGEBYSCORE', 'fleet:changes', '(' .. since, '+inf', 'WITHSCORES', 'LIMIT', 0, most)
local names = {}
for i = 1, #flat, 2 do
  names[#names + 1] = flat[i]
  since = tonumber(flat[i + 1])
end
local reports = #names > 0 and redis.call('HMGET', 'fleet', unpack(names)) or {}
if #names == most then
  return {epoch, since, 0, names, reports, {}}
end
local silent = redis.call('ZRANGEBYSCORE', 'fleet:beats', heard - ARGV[4] - 60000, '(' .. (now - ARGV[4]))
return {epoch, since, now, names, reports, silent}
