-- Note what one scheduler is asked for, at this server's time; forget those silent for an hour.
-- KEYS none. ARGV: 1 scheduler, 2 document
for _, owner in ipairs(redis.call('HKEYS', 'demand')) do
  local told = redis.call('HGET', 'demand', owner)
  if tonumber(string.match(told, '^%d+')) < now - 3600000 then
    redis.call('HDEL', 'demand', owner)
  end
end
redis.call('HSET', 'demand', ARGV[1], string.format('%.0f', now) .. ' ' .. ARGV[2])
return now
