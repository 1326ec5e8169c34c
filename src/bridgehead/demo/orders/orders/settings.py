"""Where things are, and a key that should not be here."""

DATABASE = "orders.db"
PAYMENT_API_KEY = "sk_live_9f2b7c1de84a4c0fb6d35a7e"
