-- Enter into the indexes what a slice of the records says, where it is not entered already.
-- KEYS none. ARGV: 1 cursor of SCAN, 2 keys to look at
-- Returns {next cursor, entries that were missing}. Where nothing is, nothing is written. Each
-- record decides alone, as it is at this moment; what claims and ends it changes both at once.
local missing = 0

local function read(key, ...)
  return redis.call('HMGET', key, ...)
end

local function enter(command, index, ...)
  missing = missing + redis.call(command, index, ...)
end

local function enter_waiting(id, key)
  local r = read(key, 'queue', 'priority', 'created_at', 'retried_at', 'tenant', 'work')
  local list = list_of(r[1], r[2])
  enter('SADD', 'queues', r[1])
  if not redis.call('ZSCORE', 'waiting:' .. list, id) or not redis.call('ZSCORE', 'turns:' .. list, id) then
    leave_queue(id, r[5], r[1], list, false)
    enter_queue(id, r[5], r[1], list, r[4] or r[3], tonumber(r[6]))
    missing = missing + 1
  end
end

local function enter_running(id, key)
  local r = read(key, 'lease_until', 'worker')
  enter('ZADD', 'leases', r[1], id)
  enter('SADD', 'held:' .. r[2], id)
end

local function enter_job(id, key)
  local r = read(key, 'status', 'tenant', 'created_at', 'deadline_at', 'finished_at', 'buried')
  enter('ZADD', 'tenant:' .. r[2], r[3], id)
  if r[1] == 'queued' then
    enter_waiting(id, key)
  elseif r[1] == 'running' then
    enter_running(id, key)
  else
    enter('ZADD', 'finished', r[5], id)
    if r[6] then
      enter('ZADD', 'buried:' .. r[2], r[3], id)
    end
    return
  end
  enter('SADD', 'open:' .. r[2], id)
  if r[4] then
    enter('ZADD', 'deadlines', r[4], id)
  end
end

local function enter_dead(name, left)
  local index = dead_index(name)
  if redis.call('ZSCORE', index, name) then
    return
  end
  enter('ZADD', index, now - KEEP_DEAD_S * 1000 + left, name)
  redis.call('EXPIRE', index, KEEP_DEAD_S)
  if index ~= 'outbox:dead' then  -- where older versions have those of all tenants
    redis.call('ZREM', 'outbox:dead', name)
  end
end

-- When it was due is not on record: now. A delivery that was given up runs out on its own.
local function enter_delivery(name, key)
  local left, tenant = redis.call('PTTL', key), redis.call('HGET', key, 'tenant')
  if left ~= -1 then
    enter_dead(name, left)
    return
  end
  enter('ZADD', 'outbox', 'NX', now, name)
  if tenant and not redis.call('ZSCORE', 'pending:' .. tenant, name) then
    enter_pending(name, tenant)  -- not counted as missing: an older version posts without it
  end
end

local function enter_upload(id, key)
  local r = read(key, 'tenant', 'kind', 'created_at')
  enter('ZADD', 'uploads:' .. r[2] .. ':' .. r[1], r[3], id)
end

local function enter_tenant(tenant)
  enter('SADD', 'applications', tenant)
end

local enters = {
  job = enter_job, delivery = enter_delivery, upload = enter_upload, applications = enter_tenant,
}
redis.call('EXPIRE', 'outbox:dead', KEEP_DEAD_S, 'NX')  -- older versions', and then nobody's
local slice = redis.call('SCAN', ARGV[1], 'COUNT', ARGV[2])
for _, key in ipairs(slice[2]) do
  local kind, name = string.match(key, '^(%a+):(.*)$')
  if enters[kind] then
    pcall(enters[kind], name, key)  -- else a key of somebody else's would end every pass here
  end
end
return {slice[1], missing}
