from core.bodies.incoming import HeldBytes
from router.bodies import PART_BYTES, HeldBody


async def test_a_body_is_read_out_whole_though_it_is_let_go_on_the_way():
    held = HeldBytes(2**20, 2**18)
    body = HeldBody(held, "a client")
    sent = bytes(range(256)) * (PART_BYTES // 100)
    body.add(sent)
    parts, others = body.parts(), body.parts()
    first = await anext(parts)
    body.let_go()
    assert b"".join([first, *[each async for each in parts]]) == sent
    assert b"".join([each async for each in others]) == sent
    assert (held.total_bytes, body.parts()) == (0, None)
