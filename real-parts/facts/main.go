// Command facts prints what the built-in API of Kubernetes is made of, as tables the lab is compiled with:
// names, shapes and numbers, no prose.
//
//	facts resources KUBECONFIG   what a running server serves (discovery)
//	facts types RESOURCES_TXT    the types behind those resources
//	facts kinds RESOURCES_TXT    the kinds the server knows and does not serve
//	facts rbac                   the roles and bindings every server starts with
//	facts bootstrap              the other objects every server starts with
//	facts quantities             what the real type makes of odd quantities
package main

import (
	"bufio"
	"fmt"
	"os"
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	if err := run(out, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "facts:", err)
		os.Exit(1)
	}
	if err := out.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "facts:", err)
		os.Exit(1)
	}
}

func run(out *bufio.Writer, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "resources":
		return printResources(out, args[1])
	case len(args) == 2 && args[0] == "types":
		return printTypes(out, args[1])
	case len(args) == 2 && args[0] == "kinds":
		return printKinds(out, args[1])
	case len(args) == 1 && args[0] == "rbac":
		return printRBAC(out)
	case len(args) == 1 && args[0] == "bootstrap":
		return printBootstrap(out)
	case len(args) == 1 && args[0] == "quantities":
		return printQuantities(out)
	}
	return fmt.Errorf("usage: facts resources KUBECONFIG | types RESOURCES_TXT | kinds RESOURCES_TXT | rbac | bootstrap | quantities")
}
