"""The same job in other dialects: pure views of the native one."""
