package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// printResources writes one line per group (`group NAME`), version (` version NAME`) and resource, in the order of
// the server. A resource line is
//
//	plural singular kind scope verbs [short=..] [categories=..] [storage=VERSION/KIND]
//
// and a subresource line, one step further in, is
//
//	name kind scope verbs [gv=GROUP/VERSION]
//
// where gv is the version of the kind where it differs from that of the resource. A subresource that is not part of
// a served resource has the resource's name alone on its line, with `-` for all else.
func printResources(out *bufio.Writer, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	client := set.Discovery().RESTClient()
	for _, root := range []string{"/api", "/apis"} {
		var groups apidiscovery.APIGroupDiscoveryList
		if err := get(client, root, aggregated, &groups); err != nil {
			return err
		}
		for _, group := range groups.Items {
			if !scheme.IsGroupRegistered(group.Name) {
				continue
			}
			if err := printGroup(out, client, root, group); err != nil {
				return err
			}
		}
	}
	return nil
}

func get(client rest.Interface, path, accept string, into any) error {
	body, err := client.Get().AbsPath(path).SetHeader("Accept", accept).DoRaw(context.Background())
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

func printGroup(out *bufio.Writer, client rest.Interface, root string, group apidiscovery.APIGroupDiscovery) error {
	fmt.Fprintf(out, "group %s\n", orDash(group.Name))
	for _, version := range group.Versions {
		path := root + "/" + version.Version
		gv := version.Version
		if group.Name != "" {
			path = root + "/" + group.Name + "/" + version.Version
			gv = group.Name + "/" + version.Version
		}
		var plain metav1.APIResourceList
		if err := get(client, path, "application/json", &plain); err != nil {
			return err
		}
		hashes := map[string]string{}
		for _, resource := range plain.APIResources {
			hashes[resource.Name] = resource.StorageVersionHash
		}
		fmt.Fprintf(out, " version %s\n", version.Version)
		for _, resource := range version.Resources {
			storage, err := storageVersion(group, resource, version.Version, hashes[resource.Resource])
			if err != nil {
				return err
			}
			printResource(out, gv, resource, storage)
		}
	}
	return nil
}

func printResource(out *bufio.Writer, gv string, resource apidiscovery.APIResourceDiscovery, storage string) {
	if resource.ResponseKind == nil || resource.ResponseKind.Kind == "" {
		fmt.Fprintf(out, "  %s - - %s -\n", resource.Resource, resource.Scope)
	} else {
		fmt.Fprintf(out, "  %s %s %s %s %s", resource.Resource, orDash(resource.SingularResource),
			resource.ResponseKind.Kind, resource.Scope, orDash(strings.Join(resource.Verbs, ",")))
		if len(resource.ShortNames) > 0 {
			fmt.Fprintf(out, " short=%s", strings.Join(resource.ShortNames, ","))
		}
		if len(resource.Categories) > 0 {
			fmt.Fprintf(out, " categories=%s", strings.Join(resource.Categories, ","))
		}
		if storage != "" {
			fmt.Fprintf(out, " storage=%s", storage)
		}
		out.WriteString(foreign(gv, resource.ResponseKind) + "\n")
	}
	for _, sub := range resource.Subresources {
		kind := "-"
		if sub.ResponseKind != nil && sub.ResponseKind.Kind != "" {
			kind = sub.ResponseKind.Kind
		}
		fmt.Fprintf(out, "   %s %s %s%s\n", sub.Subresource, kind, orDash(strings.Join(sub.Verbs, ",")),
			foreign(gv, sub.ResponseKind))
	}
}

// foreign names the version of a kind where it is not that of the resource.
func foreign(gv string, kind *metav1.GroupVersionKind) string {
	if kind == nil || kind.Kind == "" {
		return ""
	}
	of := strings.TrimPrefix(kind.Group+"/"+kind.Version, "/")
	if of == gv || of == "" || of == "/" {
		return ""
	}
	return " gv=" + of
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// storageVersion finds the version a resource is stored in from the hash the server publishes of it. Nothing is
// returned for a resource that is not stored.
func storageVersion(
	group apidiscovery.APIGroupDiscovery, resource apidiscovery.APIResourceDiscovery, version, hash string,
) (string, error) {
	if hash == "" {
		return "", nil
	}
	candidates := []string{}
	for _, of := range group.Versions {
		candidates = append(candidates, group.Name+"/"+of.Version)
	}
	// Events of either group are stored as those of the core.
	candidates = append(candidates, "/v1")
	for _, extra := range []string{"v1", "v1beta1", "v1alpha1", "v1beta2", "v1alpha2", "v1beta3", "v1alpha3"} {
		candidates = append(candidates, group.Name+"/"+extra)
	}
	sort.SliceStable(candidates, func(a, b int) bool {
		return candidates[a] == group.Name+"/"+version && candidates[b] != group.Name+"/"+version
	})
	for _, candidate := range candidates {
		sum := sha256.Sum256([]byte(candidate + "/" + resource.ResponseKind.Kind))
		if base64.StdEncoding.EncodeToString(sum[:8]) == hash {
			return strings.TrimPrefix(candidate, "/"), nil
		}
	}
	return "", fmt.Errorf("no version matches the storage hash of %s in %q", resource.Resource, group.Name)
}
