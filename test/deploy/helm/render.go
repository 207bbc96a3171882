// Renders the templates of a chart with Go's own engine, which is Helm's, and with those of Helm's functions that the chart uses.
// usage: render CHART < {"Values": …, "Release": …, "Chart": …, "APIVersions": […], "KubeVersion": "v1.29.0"}; prints {"file": "text", …}
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"text/template"
)

// Those that the cluster serves, as Helm's .Capabilities has them.
type versionSet []interface{}

func (versions versionSet) Has(wanted string) bool {
	for _, one := range versions {
		if one == wanted {
			return true
		}
	}
	return false
}

// Of the constraints that Helm's function knows, the one that the chart uses: ">=1.29.0-0", releases before a version included.
func atLeast(constraint, version string) (bool, error) {
	var least, given [3]int
	if _, err := fmt.Sscanf(constraint, ">=%d.%d.%d-0", &least[0], &least[1], &least[2]); err != nil {
		return false, fmt.Errorf("%s: %w", constraint, err)
	}
	if _, err := fmt.Sscanf(version, "v%d.%d.%d", &given[0], &given[1], &given[2]); err != nil {
		return false, fmt.Errorf("%s: %w", version, err)
	}
	for index := range least {
		if given[index] != least[index] {
			return given[index] > least[index], nil
		}
	}
	return true, nil
}

func main() {
	templates := template.New("chart").Option("missingkey=error")
	isEmpty := func(value interface{}) bool {
		truth, ok := template.IsTrue(value)
		return !ok || !truth
	}
	templates.Funcs(template.FuncMap{
		"include": func(name string, data interface{}) (string, error) {
			var text bytes.Buffer
			err := templates.ExecuteTemplate(&text, name, data)
			return text.String(), err
		},
		// JSON is YAML.
		"toYaml": func(value interface{}) (string, error) {
			text, err := json.Marshal(value)
			return string(text), err
		},
		"nindent": func(columns int, text string) string {
			pad := "\n" + strings.Repeat(" ", columns)
			return pad + strings.ReplaceAll(text, "\n", pad)
		},
		"semverCompare": atLeast,
		"fail": func(message string) (string, error) {
			return "", errors.New(message)
		},
		"default": func(otherwise interface{}, value interface{}) interface{} {
			if value == nil || !reflect.ValueOf(value).IsValid() || isEmpty(value) {
				return otherwise
			}
			return value
		},
	})
	var data map[string]interface{}
	decoder := json.NewDecoder(os.Stdin)
	decoder.UseNumber()
	must(decoder.Decode(&data))
	data["Capabilities"] = map[string]interface{}{
		"APIVersions": versionSet(data["APIVersions"].([]interface{})),
		"KubeVersion": map[string]interface{}{"Version": data["KubeVersion"]},
	}
	names, err := filepath.Glob(filepath.Join(os.Args[1], "templates", "*"))
	must(err)
	for _, name := range names {
		text, err := os.ReadFile(name)
		must(err)
		_, err = templates.New(filepath.Base(name)).Parse(string(text))
		must(err)
	}
	rendered := map[string]string{}
	for _, name := range names {
		base := filepath.Base(name)
		if strings.HasPrefix(base, "_") {
			continue
		}
		var text bytes.Buffer
		must(templates.ExecuteTemplate(&text, base, data))
		rendered[base] = text.String()
	}
	must(json.NewEncoder(os.Stdout).Encode(rendered))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
