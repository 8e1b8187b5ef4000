# The way of a push on the rank that works (src/distributed/README.md).
set pagination off
set breakpoint pending on
break worker_push
run
delete
break net_post_list
continue
bt
delete
break link_commit
continue
bt
delete
break engine_complete
continue
bt
delete
continue
