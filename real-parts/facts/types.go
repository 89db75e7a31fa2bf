package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

// leaves are the types with a notation of their own.
var leaves = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():                                "time",
	reflect.TypeFor[metav1.MicroTime]():                           "microtime",
	reflect.TypeFor[metav1.Duration]():                            "duration",
	reflect.TypeFor[resource.Quantity]():                          "quantity",
	reflect.TypeFor[intstr.IntOrString]():                         "intorstring",
	reflect.TypeFor[runtime.RawExtension]():                       "raw",
	reflect.TypeFor[apiextensions.JSON]():                         "json",
	reflect.TypeFor[metav1.FieldsV1]():                            "fields",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrBool]():        "schema-or-bool",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrArray]():       "schema-or-list",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrStringArray](): "schema-or-texts",
}

// everywhere are the kinds every group-version has, told once.
var everywhere = map[string]reflect.Type{
	"ListOptions":   reflect.TypeFor[metav1.ListOptions](),
	"GetOptions":    reflect.TypeFor[metav1.GetOptions](),
	"DeleteOptions": reflect.TypeFor[metav1.DeleteOptions](),
	"CreateOptions": reflect.TypeFor[metav1.CreateOptions](),
	"UpdateOptions": reflect.TypeFor[metav1.UpdateOptions](),
	"PatchOptions":  reflect.TypeFor[metav1.PatchOptions](),
	"WatchEvent":    reflect.TypeFor[metav1.WatchEvent](),
}

// besides are types no resource leads to.
var besides = []reflect.Type{
	reflect.TypeFor[apiextensions.ConversionReview](),
	reflect.TypeFor[apiextensions.JSON](),
	reflect.TypeFor[apidiscovery.APIGroupDiscoveryList](),
	reflect.TypeFor[metav1.APIGroup](),
	reflect.TypeFor[metav1.APIGroupList](),
	reflect.TypeFor[metav1.APIResourceList](),
	reflect.TypeFor[metav1.APIVersions](),
	reflect.TypeFor[metav1.PartialObjectMetadata](),
	reflect.TypeFor[metav1.PartialObjectMetadataList](),
	reflect.TypeFor[metav1.Status](),
	reflect.TypeFor[version.Info](),
}

// table collects the types to be printed.
type table struct {
	definitions map[string]common.OpenAPIDefinition
	kinds       map[reflect.Type][]string
	lines       map[string]string
}

// printTypes writes one line per type, `NAME [kinds=GROUP/VERSION/KIND,..] [atomic] [unions=JSON]`, and one line per
// field, starting with a space:
//
//	name type omit [required] [proto=NUMBER] [within=NUMBER,..] [in=GO.NAMES] [list=set|map:KEYS]
//	     [atomic|granular] [patch=..] [key=..] [enum=..] [default=JSON]
//
// A type is `[]T`, `{}T` (a map), `@NAME`, or a leaf; a leaf or `[]`/`{}` with a Go name of its own has it
// behind a colon: `string:v1.PodPhase`, `{:v1.ResourceList}quantity`. A list that is a message of its own in
// protobuf is written `[!:v1.ExtraValue]string`. Spaces in the values of an enum are written `_`.
func printTypes(out *bufio.Writer, resources string) error {
	table := &table{
		definitions: openapi.GetOpenAPIDefinitions(func(path string) spec.Ref { return spec.MustCreateRef(path) }),
		kinds:       map[reflect.Type][]string{},
		lines:       map[string]string{},
	}
	kinds, err := readKinds(resources)
	if err != nil {
		return err
	}
	roots := append([]reflect.Type{}, besides...)
	for name, of := range everywhere {
		table.kinds[of] = append(table.kinds[of], "*/"+name)
		roots = append(roots, of)
	}
	for _, kind := range kinds {
		for _, name := range []string{kind.Kind, kind.Kind + "List"} {
			of, known := scheme.AllKnownTypes()[kind.GroupVersion().WithKind(name)]
			if !known {
				continue
			}
			table.kinds[of] = append(table.kinds[of], strings.TrimPrefix(kind.GroupVersion().String()+"/"+name, "/"))
			roots = append(roots, of)
		}
	}
	for _, of := range besides {
		for gvk, known := range scheme.AllKnownTypes() {
			if known == of && len(table.kinds[of]) == 0 && (gvk.Group == "" || of.Name() == "ConversionReview") {
				table.kinds[of] = append(table.kinds[of], gvk.GroupVersion().String()+"/"+gvk.Kind)
			}
		}
	}
	for _, of := range roots {
		if err := table.visit(of); err != nil {
			return err
		}
	}
	names := make([]string, 0, len(table.lines))
	for name := range table.lines {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if _, err := out.WriteString(table.lines[name]); err != nil {
			return err
		}
	}
	return nil
}

// readKinds reads the kinds that are served, and the options of subresources, from the table of resources.
func readKinds(path string) ([]schema.GroupVersionKind, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	kinds := []schema.GroupVersionKind{
		{Version: "v1", Kind: "PodLogOptions"},
		{Version: "v1", Kind: "List"},
		{Version: "v1", Kind: "RangeAllocation"},
		{Version: "v1", Kind: "SerializedReference"},
	}
	seen := map[schema.GroupVersionKind]bool{}
	var group, version string
	for _, line := range strings.Split(string(text), "\n") {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		switch {
		case !strings.HasPrefix(line, " "):
			group = strings.TrimPrefix(words[1], "-")
		case !strings.HasPrefix(line, "  "):
			version = words[1]
		default:
			kind := words[1]
			if !strings.HasPrefix(line, "   ") {
				kind = words[2]
			}
			gvk := schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
			for _, word := range words {
				if of, found := strings.CutPrefix(word, "gv="); found {
					parsed, err := schema.ParseGroupVersion(of)
					if err != nil {
						return nil, err
					}
					gvk = parsed.WithKind(kind)
				}
			}
			if kind != "-" && !seen[gvk] {
				seen[gvk] = true
				kinds = append(kinds, gvk)
			}
		}
	}
	return kinds, nil
}

// modelName is the name of a type in OpenAPI.
func modelName(of reflect.Type) (string, bool) {
	namer, named := reflect.New(of).Interface().(interface{ OpenAPIModelName() string })
	if !named {
		return "", false
	}
	return namer.OpenAPIModelName(), true
}

// visit describes a structure and everything it leads to.
func (t *table) visit(of reflect.Type) error {
	if _, leaf := leaves[of]; leaf {
		return nil
	}
	name, named := modelName(of)
	if !named {
		return fmt.Errorf("%v has no name in OpenAPI", of)
	}
	if _, done := t.lines[name]; done {
		return nil
	}
	t.lines[name] = ""
	if reflect.PointerTo(of).Implements(reflect.TypeFor[json.Marshaler]()) {
		return fmt.Errorf("%v has a notation of its own", of)
	}
	definition, known := t.definitions[name]
	if !known {
		return fmt.Errorf("%s has no definition", name)
	}
	var text strings.Builder
	text.WriteString(name)
	if kinds := t.kinds[of]; len(kinds) > 0 {
		sort.Strings(kinds)
		fmt.Fprintf(&text, " kinds=%s", strings.Join(kinds, ","))
	}
	if definition.Schema.Extensions["x-kubernetes-map-type"] == "atomic" {
		text.WriteString(" atomic")
	}
	if unions, has := definition.Schema.Extensions["x-kubernetes-unions"]; has {
		rendered, err := compact(unions)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, " unions=%s", rendered)
	}
	text.WriteString("\n")
	fields := map[string]string{}
	if err := t.fields(of, definition.Schema, nil, nil, fields); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for property := range definition.Schema.Properties {
		if _, has := fields[property]; !has {
			return fmt.Errorf("%s.%s is in OpenAPI only", name, property)
		}
	}
	names := make([]string, 0, len(fields))
	for field := range fields {
		names = append(names, field)
	}
	sort.Strings(names)
	for _, field := range names {
		text.WriteString(fields[field])
	}
	t.lines[name] = text.String()
	return nil
}

// fields describes the fields of a structure, those of embedded structures among them.
func (t *table) fields(
	of reflect.Type, model spec.Schema, within, path []string, into map[string]string,
) error {
	for index := range of.NumField() {
		field := of.Field(index)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		number := protoNumber(field)
		if name == "" && field.Anonymous {
			around := within
			embedded := field.Type
			if embedded.Kind() == reflect.Pointer {
				return fmt.Errorf("%s is embedded by pointer", field.Name)
			}
			if number != "" {
				around = append(append([]string{}, within...), number)
			} else if embedded != reflect.TypeFor[metav1.TypeMeta]() {
				if reflect.PointerTo(of).Implements(reflect.TypeFor[protoMessage]()) {
					return fmt.Errorf("%s is embedded without a number", field.Name)
				}
			}
			inner := into
			if embedded == reflect.TypeFor[metav1.TypeMeta]() && number == "" {
				// The names of the kind are in the envelope, not in the message.
				inner = map[string]string{}
			}
			if err := t.fields(embedded, model, around, append(append([]string{}, path...), field.Name), inner); err != nil {
				return err
			}
			if embedded == reflect.TypeFor[metav1.TypeMeta]() && number == "" {
				for key, line := range inner {
					words := strings.Fields(line)
					kept := words[:0]
					for _, word := range words {
						if !strings.HasPrefix(word, "proto=") {
							kept = append(kept, word)
						}
					}
					into[key] = " " + strings.Join(kept, " ") + "\n"
				}
			}
			continue
		}
		if name == "-" || !field.IsExported() {
			continue
		}
		if name == "" {
			name = field.Name
		}
		line, err := t.field(field, name, options, number, model, within, path)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		into[name] = line
	}
	return nil
}

// protoMessage is what messages of protobuf can do.
type protoMessage interface{ Marshal() ([]byte, error) }

func protoNumber(field reflect.StructField) string {
	tag := field.Tag.Get("protobuf")
	if tag == "" || tag == "-" {
		return ""
	}
	return strings.Split(tag, ",")[1]
}

func (t *table) field(
	field reflect.StructField, name, options, number string, model spec.Schema, within, path []string,
) (string, error) {
	property, described := model.Properties[name]
	if !described {
		return "", fmt.Errorf("not in OpenAPI")
	}
	of, err := t.expression(field.Type)
	if err != nil {
		return "", err
	}
	words := []string{"", name, of, omission(field.Type, options)}
	for _, required := range model.Required {
		if required == name {
			words = append(words, "required")
		}
	}
	if number != "" {
		words = append(words, "proto="+number)
		if len(within) > 2 {
			return "", fmt.Errorf("embedded too deep")
		}
		if len(within) > 0 {
			words = append(words, "within="+strings.Join(within, ","))
		}
	}
	if len(path) > 0 {
		words = append(words, "in="+strings.Join(path, "."))
	}
	if kind, has := property.Extensions["x-kubernetes-list-type"].(string); has && kind != "atomic" {
		if kind == "map" {
			kind = "map:" + strings.Join(keysOf(property.Extensions["x-kubernetes-list-map-keys"]), ",")
		}
		words = append(words, "list="+kind)
	} else if has {
		words = append(words, "list=atomic")
	}
	if kind, has := property.Extensions["x-kubernetes-map-type"]; has {
		words = append(words, fmt.Sprint(kind))
	}
	if strategy := field.Tag.Get("patchStrategy"); strategy != "" {
		words = append(words, "patch="+strategy)
	}
	if key := field.Tag.Get("patchMergeKey"); key != "" {
		words = append(words, "key="+key)
	}
	if values := enumOf(property); len(values) > 0 {
		joined := strings.Join(values, ",")
		if strings.Contains(joined, "_") {
			return "", fmt.Errorf("an underscore in %q", joined)
		}
		words = append(words, "enum="+strings.ReplaceAll(joined, " ", "_"))
	}
	if property.Default != nil {
		rendered, err := compact(property.Default)
		if err != nil {
			return "", err
		}
		words = append(words, "default="+rendered)
	}
	for _, word := range words {
		if strings.ContainsAny(word, " \n") {
			return "", fmt.Errorf("a space in %q", word)
		}
	}
	return strings.Join(words, " ") + "\n", nil
}

func keysOf(value any) []string {
	var keys []string
	switch value := value.(type) {
	case []any:
		for _, key := range value {
			keys = append(keys, fmt.Sprint(key))
		}
	case []string:
		keys = value
	}
	return keys
}

func compact(value any) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}

// enumOf finds the values a text is limited to, whether it stands alone, in a list or in a map.
func enumOf(model spec.Schema) []string {
	var values []string
	for _, value := range model.Enum {
		values = append(values, fmt.Sprint(value))
	}
	if len(values) == 0 && model.Items != nil && model.Items.Schema != nil {
		return enumOf(*model.Items.Schema)
	}
	if len(values) == 0 && model.AdditionalProperties != nil && model.AdditionalProperties.Schema != nil {
		return enumOf(*model.AdditionalProperties.Schema)
	}
	return values
}

// omission tells when the field is left out: never, zero, missing (a pointer) or null (a pointer that is written).
func omission(of reflect.Type, options string) string {
	empty := strings.Contains(","+options+",", ",omitempty,")
	zero := strings.Contains(","+options+",", ",omitzero,")
	switch {
	case of.Kind() == reflect.Pointer && (empty || zero):
		return "missing"
	case of.Kind() == reflect.Pointer:
		return "null"
	case of.Kind() == reflect.Struct && zero:
		return "zero"
	case of.Kind() == reflect.Struct:
		return "never"
	case empty || zero:
		return "zero"
	}
	return "never"
}

// expression writes a type.
func (t *table) expression(of reflect.Type) (string, error) {
	if leaf, found := leaves[of]; found {
		return leaf, nil
	}
	suffix := ""
	if of.PkgPath() != "" {
		suffix = ":" + of.String()
	}
	switch of.Kind() {
	case reflect.Pointer:
		return t.expression(of.Elem())
	case reflect.String:
		return "string" + suffix, nil
	case reflect.Bool:
		return "bool" + suffix, nil
	case reflect.Int32, reflect.Int64, reflect.Float64:
		return of.Kind().String() + suffix, nil
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return "bytes" + suffix, nil
		}
		message := ""
		if reflect.PointerTo(of).Implements(reflect.TypeFor[protoMessage]()) {
			message = "!"
		}
		inner, err := t.expression(of.Elem())
		return "[" + message + suffix + "]" + inner, err
	case reflect.Map:
		if of.Key().Kind() != reflect.String {
			return "", fmt.Errorf("the keys are %v", of.Key())
		}
		if of.Key().PkgPath() != "" && suffix == "" {
			suffix = ":" + of.String()
		}
		inner, err := t.expression(of.Elem())
		return "{" + suffix + "}" + inner, err
	case reflect.Struct:
		if err := t.visit(of); err != nil {
			return "", err
		}
		name, _ := modelName(of)
		return "@" + name, nil
	}
	return "", fmt.Errorf("no notation for %v", of)
}
