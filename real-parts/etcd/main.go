// Command etcd is the stock etcd server; Debian's package is too old for watch progress.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
