"""What the tests share."""
import unittest

import kvstore as mx


class Case(unittest.TestCase):
    def fails(self, code, call, *args, **kw):
        """The KVError that a call raises, of this code."""
        with self.assertRaises(mx.KVError) as c:
            call(*args, **kw)
        self.assertEqual(c.exception.code, code)
        return c.exception
