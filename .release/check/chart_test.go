// Package check_test checks the chart, and the manifests that are rendered from it.
package check_test

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the manifests")

const (
	folder    = "../chart"
	manifests = "../kubernetes"
)

// valueSets are the values that the chart is checked with, by name: the defaults, and the files
// in its folder ci.
func valueSets(t *testing.T) map[string]map[string]any {
	t.Helper()
	sets := map[string]map[string]any{"all-in-one": {}}
	files, err := filepath.Glob(folder + "/ci/*-values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no values in ci", err)
	}
	for _, file := range files {
		values, err := chartutil.ReadValuesFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sets[strings.TrimSuffix(filepath.Base(file), "-values.yaml")] = values
	}
	return sets
}

// render returns the manifests of a release named flunq, as 'helm template' does.
func render(c *chart.Chart, values map[string]any) (string, error) {
	release := chartutil.ReleaseOptions{Name: "flunq", Namespace: "default"}
	all, err := chartutil.ToRenderValues(c, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		return "", err
	}
	rendered, err := engine.Render(c, all)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		for _, document := range documents(rendered[name]) {
			out.WriteString("---\n" + document + "\n")
		}
	}
	return out.String(), nil
}

func documents(text string) (all []string) {
	for _, document := range regexp.MustCompile(`(?m)^---$`).Split(text, -1) {
		if document = strings.TrimSpace(document); document != "" {
			all = append(all, document)
		}
	}
	return all
}

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.LoadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The chart passes 'helm lint --strict'.
func TestLint(t *testing.T) {
	for name, values := range valueSets(t) {
		for _, m := range lint.AllWithKubeVersion(folder, values, "default", nil).Messages {
			if m.Severity >= support.WarningSev {
				t.Errorf("%s: %s", name, m)
			}
		}
	}
}

// serviceMonitor is the part of the operator's ServiceMonitor that the chart uses.
type serviceMonitor struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		Selector  meta.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port     string `json:"port"`
			Path     string `json:"path"`
			Interval string `json:"interval"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// release is what a set of values deploys.
type release struct {
	accounts    []core.ServiceAccount
	configs     []core.ConfigMap
	services    []core.Service
	deployments []apps.Deployment
	budgets     []policy.PodDisruptionBudget
	scalers     []autoscaling.HorizontalPodAutoscaler
	policies    []networking.NetworkPolicy
	monitors    []serviceMonitor
}

// decode reads manifests into the types of Kubernetes. Unknown and repeated fields and wrong types are
// errors.
func decode(t *testing.T, text string) (r release) {
	t.Helper()
	for _, document := range documents(text) {
		var kind meta.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatal(err)
		}
		var err error
		switch kind.APIVersion + " " + kind.Kind {
		case "v1 ServiceAccount":
			err = into(document, &r.accounts)
		case "v1 ConfigMap":
			err = into(document, &r.configs)
		case "v1 Service":
			err = into(document, &r.services)
		case "apps/v1 Deployment":
			err = into(document, &r.deployments)
		case "policy/v1 PodDisruptionBudget":
			err = into(document, &r.budgets)
		case "autoscaling/v2 HorizontalPodAutoscaler":
			err = into(document, &r.scalers)
		case "networking.k8s.io/v1 NetworkPolicy":
			err = into(document, &r.policies)
		case "monitoring.coreos.com/v1 ServiceMonitor":
			err = into(document, &r.monitors)
		default:
			t.Errorf("unknown kind %s %s", kind.APIVersion, kind.Kind)
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", kind.Kind, err, document)
		}
	}
	return r
}

func into[T any](document string, all *[]T) error {
	var one T
	err := yaml.UnmarshalStrict([]byte(document), &one)
	*all = append(*all, one)
	return err
}

// Each set of values gives manifests that refer to each other by names, labels and ports that exist.
func TestManifests(t *testing.T) {
	known := settings(t)
	c := load(t)
	for name, values := range valueSets(t) {
		t.Run(name, func(t *testing.T) {
			text, err := render(c, values)
			if err != nil {
				t.Fatal(err)
			}
			if name != "everything" {
				same(t, filepath.Join(manifests, name+".yaml"), "# Made from the chart by 'go test ./... -update' in .release/check.\n"+text)
			}
			decode(t, text).check(t, known)
		})
	}
}

func (r release) check(t *testing.T, known map[string]string) {
	if len(r.deployments) == 0 || len(r.budgets) != len(r.deployments) || len(r.accounts) != 1 || len(r.configs) != 1 {
		t.Errorf("%d deployments, %d budgets, %d accounts, %d configs", len(r.deployments), len(r.budgets), len(r.accounts), len(r.configs))
	}
	for variable := range r.configs[0].Data {
		if _, ok := known[variable]; !ok && variable != "REDIS_URL" {
			t.Errorf("%s: no setting of flunq", variable)
		}
	}
	for _, d := range r.deployments {
		pod := d.Spec.Template
		if !selects(*d.Spec.Selector, pod.Labels) {
			t.Errorf("%s: does not select its own pods", d.Name)
		}
		r.checkPod(t, d.Name, pod.Spec)
		covered := func(s *meta.LabelSelector) bool { return s != nil && selects(*s, pod.Labels) }
		if !slices.ContainsFunc(r.budgets, func(b policy.PodDisruptionBudget) bool { return b.Name == d.Name && covered(b.Spec.Selector) }) {
			t.Errorf("%s: no disruption budget", d.Name)
		}
		scaled := slices.ContainsFunc(r.scalers, func(s autoscaling.HorizontalPodAutoscaler) bool {
			return s.Spec.ScaleTargetRef.Name == d.Name && s.Spec.ScaleTargetRef.Kind == d.Kind && s.Spec.ScaleTargetRef.APIVersion == d.APIVersion
		})
		if scaled == (d.Spec.Replicas != nil) {
			t.Errorf("%s: want replicas or a scaler, not both", d.Name)
		}
		for _, p := range r.policies {
			if !selects(p.Spec.PodSelector, pod.Labels) {
				t.Errorf("%s: the network policy does not select it", d.Name)
			}
		}
	}
	for _, s := range r.scalers {
		if !slices.ContainsFunc(r.deployments, func(d apps.Deployment) bool { return d.Name == s.Spec.ScaleTargetRef.Name }) {
			t.Errorf("scaler %s: no such deployment", s.Name)
		}
	}
	for _, s := range r.services {
		for _, port := range s.Spec.Ports {
			if !slices.ContainsFunc(r.deployments, func(d apps.Deployment) bool {
				return selects(meta.LabelSelector{MatchLabels: s.Spec.Selector}, d.Spec.Template.Labels) &&
					hasPort(d.Spec.Template.Spec, port.TargetPort.StrVal)
			}) {
				t.Errorf("service %s: no pod has the port %s", s.Name, port.TargetPort.StrVal)
			}
		}
	}
	for _, p := range r.policies {
		for _, rule := range p.Spec.Ingress {
			for _, port := range rule.Ports {
				if !slices.ContainsFunc(r.deployments, func(d apps.Deployment) bool { return hasPort(d.Spec.Template.Spec, port.Port.StrVal) }) {
					t.Errorf("network policy: no pod has the port %s", port.Port.StrVal)
				}
			}
		}
	}
	for _, m := range r.monitors {
		if !slices.ContainsFunc(r.services, func(s core.Service) bool {
			return selects(m.Spec.Selector, s.Labels) && slices.ContainsFunc(s.Spec.Ports, func(p core.ServicePort) bool { return p.Name == m.Spec.Endpoints[0].Port })
		}) {
			t.Error("the service monitor finds no service")
		}
	}
}

// checkPod checks what a pod refers to, and that it has no more privileges than the image needs.
func (r release) checkPod(t *testing.T, name string, pod core.PodSpec) {
	c := pod.Containers[0]
	if pod.ServiceAccountName != r.accounts[0].Name || *pod.AutomountServiceAccountToken || *r.accounts[0].AutomountServiceAccountToken {
		t.Errorf("%s: service account %q, want one without a token", name, pod.ServiceAccountName)
	}
	if c.EnvFrom[0].ConfigMapRef.Name != r.configs[0].Name {
		t.Errorf("%s: no config %s", name, c.EnvFrom[0].ConfigMapRef.Name)
	}
	for probe, want := range map[*core.Probe]string{c.StartupProbe: "/healthz", c.LivenessProbe: "/healthz", c.ReadinessProbe: "/readyz"} {
		if probe.HTTPGet.Path != want || !hasPort(pod, probe.HTTPGet.Port.StrVal) {
			t.Errorf("%s: probe %v, want %s on a port that is named", name, probe.HTTPGet, want)
		}
	}
	for _, m := range c.VolumeMounts {
		if !slices.ContainsFunc(pod.Volumes, func(v core.Volume) bool { return v.Name == m.Name }) {
			t.Errorf("%s: no volume %s", name, m.Name)
		}
	}
	s := c.SecurityContext
	if !*pod.SecurityContext.RunAsNonRoot || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) {
		t.Errorf("%s: security context %v", name, s)
	}
	if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
		t.Errorf("%s: resources %v", name, c.Resources)
	}
	if *pod.TerminationGracePeriodSeconds < 10 {
		t.Errorf("%s: %d s to end, want more than a process needs", name, *pod.TerminationGracePeriodSeconds)
	}
}

func selects(s meta.LabelSelector, labels map[string]string) bool {
	for key, value := range s.MatchLabels {
		if labels[key] != value {
			return false
		}
	}
	return len(s.MatchLabels) > 0
}

func hasPort(pod core.PodSpec, name string) bool {
	return slices.ContainsFunc(pod.Containers[0].Ports, func(p core.ContainerPort) bool { return p.Name == name })
}

// The chart rejects unknown values.
func TestWrongValues(t *testing.T) {
	c := load(t)
	for wrong, want := range map[string]string{
		`settings: {EXECUTOR_CONCURENCY: 4}`:       "EXECUTOR_CONCURENCY",
		`settings: {HTTP_ADDRESS: ":9"}`:           "HTTP_ADDRESS",
		`separate: "yes"`:                          "separate",
		`replicas: 3`:                              "replicas",
		`deployments: {wroker: {}}`:                "wroker",
		`defaults: {autoscaling: {maxReplica: 3}}`: "maxReplica",
		`deployments: {worker: {replicas: 0.5}}`:   "replicas",
		`redis: {url: ""}`:                         "url",
	} {
		values, err := chartutil.ReadValues([]byte(wrong))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := render(c, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one about %s", wrong, err, want)
		}
	}
}

// settings returns the descriptions of flunq's settings by name.
func settings(t *testing.T) map[string]string {
	t.Helper()
	out, err := show()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var rows []struct{ Name, Help string }
	if err := json.Unmarshal(out, &rows); err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	for _, row := range rows {
		if row.Help != "" { // the others select an engine
			known[row.Name] = row.Help
		}
	}
	return known
}

// show returns the output of 'flunq config show', without a configuration.
var show = sync.OnceValues(func() ([]byte, error) {
	show := exec.Command("go", "run", ".", "config", "show", "-o", "json")
	show.Dir = "../.."
	show.Env = append(os.Environ(), "FLUNQ_CONFIG=/dev/null")
	return show.Output()
})

// same compares text with a file, or with -update writes the file.
func same(t *testing.T, file, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || text != string(want) {
		t.Errorf("%s is not up to date (%v): run 'go test ./... -update' in .release/check", file, err)
	}
}
