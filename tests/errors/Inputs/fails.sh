# fails.sh CODE COMMAND...: runs the command and succeeds if it ends with exactly that code.
want=$1
shift
"$@"
got=$?
[ "$got" = "$want" ] || { echo "exit code $got, expected $want"; exit 1; }
