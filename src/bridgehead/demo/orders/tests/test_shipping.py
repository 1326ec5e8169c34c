from orders.shipping import price


def test_a_small_parcel_in_germany():
    assert price(0.5, "DE", False, False, "new", "") == 4
