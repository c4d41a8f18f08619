-- Give up the oldest deliveries of tenants that have too many to be made: a receiver that hangs, or
-- CPU workers that are away, would fill this server.
-- KEYS none. ARGV: 1 how many may wait of one tenant, 2 how many that were given up are kept of one
-- A tenant that has that many is among those of a few deliveries drawn at random, now or soon.
local DRAWN = 100
local seen, room = {}, MAX_DROPPED

-- Only the end of a job is worth being kept: the rest is out of date.
local function give_up(name, tenant)
  take_out(name, tenant)
  if redis.call('HGET', 'delivery:' .. name, 'event') == 'completed' then
    keep_dead(name, ARGV[2])
    count('webhooks:dead')
  else
    redis.call('DEL', 'delivery:' .. name)
    count('webhooks:dropped')
  end
end

-- An older version settles and leaves the index as it is: that goes first, also where there is room.
local function give_up_oldest(tenant)
  local pending = 'pending:' .. tenant
  local many = math.min(math.max(redis.call('ZCARD', pending) - ARGV[1], 0), room)
  room = room - many
  for rank, name in ipairs(redis.call('ZRANGE', pending, 0, many)) do
    if not redis.call('ZSCORE', 'outbox', name) then
      redis.call('ZREM', pending, name)
    elseif rank <= many then
      give_up(name, tenant)
    end
  end
end

for _, name in ipairs(redis.call('ZRANDMEMBER', 'outbox', DRAWN)) do
  local tenant = redis.call('HGET', 'delivery:' .. name, 'tenant')
  if tenant and not seen[tenant] then
    seen[tenant] = true
    give_up_oldest(tenant)
  end
end
