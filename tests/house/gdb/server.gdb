# The way of a push on the rank that serves (src/distributed/README.md).
set pagination off
set breakpoint pending on
break rounds_push
run
bt
delete
break sum_elements
continue
bt
delete
break link_commit
continue
bt
delete
continue
