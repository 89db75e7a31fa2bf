package main

import (
	"bufio"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// printKinds writes a line for each group-version the server can decode, with the kinds of it no resource leads to:
// `apps/v1beta1 Deployment ..`. The kinds every group-version has are left out.
func printKinds(out *bufio.Writer, resources string) error {
	served, err := readKinds(resources)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, kind := range served {
		known[kind.GroupVersion().String()+"/"+kind.Kind] = true
		known[kind.GroupVersion().String()+"/"+kind.Kind+"List"] = true
	}
	byVersion := map[string][]string{}
	for gvk := range scheme.AllKnownTypes() {
		version := gvk.GroupVersion().String()
		if _, everywhere := everywhere[gvk.Kind]; everywhere || gvk.Version == "__internal" || known[version+"/"+gvk.Kind] {
			continue
		}
		byVersion[version] = append(byVersion[version], gvk.Kind)
	}
	for _, version := range slices.Sorted(maps.Keys(byVersion)) {
		kinds := byVersion[version]
		slices.Sort(kinds)
		if _, err := fmt.Fprintf(out, "%s %s\n", version, strings.Join(kinds, " ")); err != nil {
			return err
		}
	}
	return nil
}
