// The page's side of a live figure (live.py). `Plotly` is plotly.js itself, which is put before this text.

export default () => {
  let figure; // {data, layout}, with all changes so far: what a view that comes later shows
  const plots = new Set();

  return {
    initialize({ model }) {
      figure = JSON.parse(model.get("drawing"));
      model.on("msg:custom", (message) => {
        const { traces, layout } = JSON.parse(message.changes);
        figure.data.forEach((trace, i) => patch(trace, traces[i]));
        patch(figure.layout, layout);
        const paths = [...new Set(traces.flatMap(Object.keys))];
        const restyled = paths.map((path) => [path, traces.map((changes) => changes[path])]); // undefined: it stays
        for (const plot of plots) Plotly.update(plot, ...structuredClone([Object.fromEntries(restyled), layout]));
      });
    },

    render({ model, el }) {
      const plot = document.createElement("div");
      let width = 0;
      el.append(plot);
      // a view is rendered before it is in the page, where plotly would not know how wide it may be
      const observer = new ResizeObserver(async () => {
        if (plot.clientWidth === width || plot.clientWidth === 0) return;
        width = plot.clientWidth;
        if (plots.has(plot)) return Plotly.Plots.resize(plot);
        plots.add(plot);
        const { data, layout } = structuredClone(figure);
        await Plotly.newPlot(plot, data, layout, { showSendToCloud: false });
        plot.on("plotly_click", ({ points: [point] }) => model.send({ trace: point.curveNumber, point: point.pointNumber }));
      });
      observer.observe(plot);
      return () => {
        observer.disconnect();
        plots.delete(plot);
        Plotly.purge(plot);
      };
    },
  };
};

function patch(values, changes) {
  for (const [path, value] of Object.entries(changes)) {
    const names = path.split("."), last = names.pop();
    names.reduce((at, name) => (at[name] ??= {}), values)[last] = value;
  }
}
